"""A toy database kind: what the server sees of one, over a file of its own."""
