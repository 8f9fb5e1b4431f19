"""Environments that are MCP servers over stdio, each episode's in a sandbox of its own.

The other half is what runs inside (`environments/mcp_kind`). What that half answers is untrusted, as is the server.
"""

from quintain.environments.mcp.environment import McpEnvironment
from quintain.environments.mcp.kind import KIND, McpKind
from quintain.environments.mcp.sandbox import CLASS_NAME, PROGRAMS, mcp_class

__all__ = ["CLASS_NAME", "KIND", "PROGRAMS", "McpEnvironment", "McpKind", "mcp_class"]
