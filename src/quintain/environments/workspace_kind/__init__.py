"""The workspace kind, inside half: commands and files of one tree. Standard library only; runs in the sandbox."""
