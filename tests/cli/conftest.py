"""Commands run as a user runs them: in a process of their own, with caches kept between runs."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.pack import NOTES, Scenario, write_pack
from e2e.preloaded import Preloaded
from e2e.serving import environment, run

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def quintain(preloaded: Preloaded, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Run `quintain` with arguments and settings."""
    scratch = tmp_path_factory.mktemp("printed")

    def command(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        if any(name.startswith("PYTHON") for name in extra):  # read by an interpreter when it starts
            return run(arguments, tmp_path, **extra)
        return preloaded.run(arguments, tmp_path, environment(tmp_path, extra, arguments), 90, scratch)

    return command


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
