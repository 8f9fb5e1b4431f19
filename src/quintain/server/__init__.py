"""Episodes over OpenEnv: WebSocket sessions, MCP over HTTP, and what goes with them."""

from quintain.server.app import create_app, refuse_open_address, uvicorn_config
from quintain.server.settings import Settings, load_settings, settings_table

__all__ = ["Settings", "create_app", "load_settings", "refuse_open_address", "settings_table", "uvicorn_config"]
