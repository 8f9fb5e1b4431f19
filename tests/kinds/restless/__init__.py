"""A kind for tests."""
