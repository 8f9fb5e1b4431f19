"""What runs inside the sandbox to verify an episode by a task's own code. Standard library only."""
