"""Programs run by a peer's own interpreter, with this package's source beside the peer's packages."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).with_name("peers")
PEERS = ("openenv", "openenv-core")


def program(peer: str, name: str) -> Path:
    """A program of a peer's environment."""
    found = ROOT / ".venvs" / peer / "bin" / name
    assert found.exists(), f"{found} is missing; `make test` makes the peers' environments"
    return found


def environment() -> dict[str, str]:
    """What a peer's program sees."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "NO_PROXY": "127.0.0.1,localhost",
        "PYTHONWARNINGS": "default",
    }


def run_script(peer: str, script: str, *arguments: str) -> dict[str, Any]:
    """Run a script to its end; the JSON of its last line."""
    done = subprocess.run(
        [program(peer, "python"), str(SCRIPTS / script), *arguments],
        capture_output=True, text=True, timeout=100, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    played: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return played
