"""The server of this pack."""
