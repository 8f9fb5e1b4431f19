"""Run a command as an ordinary user, from tests that root runs."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from quintain.sandboxes.inside import launch

UID = 61400


def run_as_user(
    command: Sequence[str], needed: Sequence[Path], home: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run `command` as a user without privileges, able to read `needed`, with `home` as its own folder."""
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, UID, UID)
    launcher = Path(launch.__file__)
    plan = {
        "uid": UID,
        "needed": [str(path) for path in (*needed, home)],
        "death_signal": 0,
        "folder": str(home),
        "program": command[0],
        "arguments": list(command[1:]),
        "environment": {"HOME": str(home), "PATH": os.environ["PATH"], **environment},
    }
    return subprocess.run(
        [sys.executable, "-I", str(launcher), json.dumps(plan)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
