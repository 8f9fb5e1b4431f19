"""`python reduced.py serve ...`: the command line on a host where bubblewrap does not start."""

from pathlib import Path

from quintain.cli.main import main
from quintain.sandboxes.fork import launch


def find_bubblewrap() -> Path:
    """A program that fails as bubblewrap does where user namespaces are refused."""
    return Path("/usr/bin/false")


if __name__ == "__main__":
    launch.find_bubblewrap = find_bubblewrap
    main()
