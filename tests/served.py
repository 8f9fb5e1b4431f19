"""A real `quintain serve` in a process of its own, and the interpreter of the peer that talks to it."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.preloaded import shared

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / ".venvs/openenv/bin/python"


def environment(cache: Path, **more: str) -> dict[str, str]:
    """This process's environment without settings of its own, with the package on the path."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("QUINTAIN_", "OPENENV_", "AWM_", "PYTEST_")) and name != "MAX_CONCURRENT_ENVS"
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return {
        **kept,
        "PATH": path,
        "PYTHONPATH": str(ROOT / "src"),
        "QUINTAIN_CACHE_DIR": str(cache),
        "QUINTAIN_LEDGER": str(cache / "ledger.db"),
        "QUINTAIN_SPOOL_SIZE": "0",
        **more,
    }


@contextmanager
def served(cache: Path, log: Path, **more: str) -> Iterator[str]:
    """The address of a server on a free port; it must end cleanly when it is asked to."""
    with log.open("w") as errors:
        command = ["serve", "--port", "0", "--json"]
        process = shared().start(command, Path.cwd(), environment(cache, **more), stderr=errors)
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline()
            assert line, f"the server did not start: {log.read_text()[-2000:]}"
            yield json.loads(line)["url"]
        finally:
            process.terminate()
            code = process.wait(30)
    assert code == 0, f"the server ended with {code}: {log.read_text()[-2000:]}"


def peer() -> Path:
    """The interpreter that has openenv 0.10; `make test` builds it."""
    assert PEER.exists(), f"{PEER} is not there; run: make .venvs/openenv/.ready"
    return PEER
