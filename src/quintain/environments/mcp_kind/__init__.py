"""What runs inside the sandbox for environments that are MCP servers over stdio.

    kind     lay the files, start the server, answer calls
    server   the server's process, and JSON-RPC over its pipes
    state    the files that are the state

Imported by the class's own interpreter; it uses the standard library and nothing of the platform.
"""
