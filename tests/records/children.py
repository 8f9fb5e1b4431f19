"""Processes of `child.py`, forked from one that has imported it, talked to and killed."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.preloaded import shared

Start = Callable[..., "Child"]


class Child:
    """One process of `child.py`."""

    def __init__(self, command: str, *arguments: object) -> None:
        self.process = shared("records.child").start(
            [command, *map(str, arguments)], Path.cwd(), os.environ, stdin=subprocess.PIPE
        )

    def hears(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the child ended with {self.process.wait()}"
        return json.loads(line)

    def goes(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def killed(self) -> list[Any]:
        """Kill it; what it had still said."""
        self.process.kill()
        return self.ended(-9)

    def ended(self, code: int) -> list[Any]:
        rest = self.process.communicate()[0]
        assert self.process.returncode == code
        return [json.loads(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
