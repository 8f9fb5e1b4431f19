"""The kind of the conformance suite: asks, from inside a sandbox, what is possible there. Standard library only."""
