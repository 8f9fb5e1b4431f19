"""Probes of ordinary conduct: answers, state, time, death."""

import os
import time
from typing import Any


def echo(kind: Any, value: Any) -> Any:
    """The value given."""
    return value


def count(kind: Any) -> int:
    """How many calls this instance has had."""
    return int(kind.calls)


def started_with(kind: Any) -> Any:
    """What `begin` was given."""
    return kind.start


def read_state(kind: Any, name: str = "state.txt") -> str:
    """Content of a state file."""
    with open(os.path.join(kind.root, name)) as file:
        return file.read()


def write_state(kind: Any, content: str, name: str = "state.txt") -> None:
    """Replace a state file."""
    with open(os.path.join(kind.root, name), "w") as file:
        file.write(content)


def link_state(kind: Any, name: str, target: str) -> None:
    """Make a state file a symbolic link."""
    os.symlink(target, os.path.join(kind.root, name))


def large(kind: Any, size: int) -> str:
    """A text of that many characters."""
    return "x" * size


def sleep(kind: Any, seconds: float) -> None:
    """Answer late."""
    time.sleep(seconds)


def text_hash(kind: Any, text: str) -> int:
    """The hash of a text, on which the order of a set depends."""
    return hash(text)


def leave(kind: Any) -> None:
    """End the process without answering."""
    os._exit(0)


def leave_softly(kind: Any) -> None:
    """Raise SystemExit: how a provider that has no process of its own is told that one ended."""
    raise SystemExit
