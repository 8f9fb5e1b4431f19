"""Commands run as a user runs them: in a process of their own, with caches kept between runs."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.pack import NOTES, Scenario, write_pack
from e2e.serving import run

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def quintain(tmp_path: Path) -> Command:
    """Run `quintain` with arguments and settings."""
    return lambda *arguments, **extra: run(arguments, tmp_path, **extra)


@pytest.fixture
def refused(quintain: Command) -> Callable[..., str]:
    """Run a command that must be refused: exit 2, one line, no traceback. Returns the line."""

    def refuse(*arguments: str, **extra: str) -> str:
        done = quintain(*arguments, **extra)
        assert done.returncode == 2, done
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("quintain: ")
        return lines[0]

    return refuse


@pytest.fixture
def notes_pack(tmp_path: Path) -> Path:
    """A dataset of one small scenario with one task and its solution."""
    scenario = Scenario("Plain Notes 1", NOTES, solutions={0: [("add_note", {"words": "done"})]})
    return write_pack(tmp_path / "data", [scenario])
