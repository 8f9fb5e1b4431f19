"""Processes of the loop under chaos: a part that lives again and again, and a PostgreSQL server of our own."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any


class Part:
    """A process that is started again whenever it has ended, and what it says on lines of JSON."""

    def __init__(self, name: str, folder: Path, variables: Mapping[str, str]) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self.lives = 0
        self.pids: list[int] = []
        self._folder = folder
        self._variables = dict(variables)
        self._out = folder / f"{name}.out"
        self._read = 0

    def start(self, command: Sequence[str | Path]) -> None:
        """Begin another life."""
        self._out.touch()
        self._read = self._out.stat().st_size
        with self._out.open("ab") as out, (self._folder / f"{self.name}.err").open("ab") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self._variables, cwd=self._folder
            )
        self.lives += 1
        self.pids.append(self.process.pid)

    def status(self) -> int | None:
        """How it ended; None while it lives."""
        assert self.process is not None
        return self.process.poll()

    def said(self) -> list[dict[str, Any]]:
        """What it has said in this life."""
        with self._out.open("rb") as file:
            file.seek(self._read)
            return _documents(file.read())

    def all_said(self) -> list[dict[str, Any]]:
        """What it has said in all its lives."""
        return _documents(self._out.read_bytes()) if self._out.exists() else []

    @property
    def complaint(self) -> str:
        """The end of what it printed to standard error."""
        return (self._folder / f"{self.name}.err").read_text(errors="replace")[-1500:]


def _documents(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.splitlines(keepends=True):
        if line.endswith(b"\n"):  # one that was cut off was never said
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


class Postgres:
    """A PostgreSQL server of our own, which may be killed."""

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="quintain_pg_", dir="/tmp"))
        self.folder.chmod(0o755)
        self.url = f"postgresql+psycopg://quintain@/postgres?host={self.folder}"
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.folder, self._user)
        made = ["initdb", "--auth=trust", "--username=quintain", f"--pgdata={self.folder}/data", "--encoding=UTF8"]
        subprocess.run(made, user=self._user, check=True, capture_output=True, cwd=self.folder)
        self.command = ["postgres", "-D", f"{self.folder}/data", "-k", str(self.folder), "-c", "listen_addresses="]
        if self._user:
            self.command = [
                "setpriv",
                f"--reuid={self._user}",
                f"--regid={self._user}",
                "--clear-groups",
                *self.command,
            ]

    @staticmethod
    def missing() -> str | None:
        """Why there can be none here."""
        for program in ("initdb", "postgres", *(["setpriv"] if os.geteuid() == 0 else [])):
            if shutil.which(program) is None:
                return f"there is no {program}"
        try:
            import psycopg  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
        except ImportError:
            return "there is no psycopg"
        return None

    def ready(self) -> bool:
        """Whether it answers."""
        asked = ["psql", "-h", str(self.folder), "-U", "quintain", "-d", "postgres", "-c", "SELECT 1"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def remove(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.folder, ignore_errors=True)
