"""The command line: one file per command."""

from typing import Final

INTERRUPTED: Final = 130
"""Exit status of a command that Ctrl-C ended, and of a run that a signal did."""
