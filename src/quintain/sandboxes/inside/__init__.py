"""What the fork provider runs inside bubblewrap. Standard library only: it imports nothing of quintain."""
