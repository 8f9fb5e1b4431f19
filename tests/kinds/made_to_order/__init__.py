"""A kind that does what its payload's code says, at each point of its life."""
