"""Episodes as trainers want them. Each trainer is an extra, so each is imported from its own module."""
