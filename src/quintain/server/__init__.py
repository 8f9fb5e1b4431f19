"""Episodes over OpenEnv: WebSocket sessions, MCP over HTTP, and what goes with them.

Nothing is imported here: commands that only read settings need none of it.
"""
