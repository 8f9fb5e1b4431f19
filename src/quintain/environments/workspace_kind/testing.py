"""Hidden tests, run on a tree in a sandbox where no agent was."""

import json
import os
import shlex
import sys
import tempfile
from typing import Any

from .child import COMPILED
from .files import WORKSPACE
from .processes import Processes

MAX_REPORT_BYTES = 2**20
_PYTEST = (["python", "-m", "pytest"], ["python3", "-m", "pytest"], ["pytest"])


def run(
    processes: Processes, request: dict[str, Any], folder: str, environment: dict[str, str], scratch: str
) -> dict[str, Any]:
    """`{"command", "timeout_s", "variables", "in_process"}`: what the tests in a folder come to.

    Returns:
        `exit_status` (None if it was ended), `stopped` (why, if it was), `output`, and of pytest the lines of
        `reports`; of another command no reports.
    """
    words = shlex.split(request["command"])
    environment = {
        **environment,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONSAFEPATH": "1",
        "TESTS": folder,
        "VARIABLES": json.dumps(request.get("variables") or {}),
    }
    given = next((words[len(start) :] for start in _PYTEST if words[: len(start)] == start), None)
    with tempfile.TemporaryFile(dir=scratch) as reports:
        if given is None:
            environment["PYTHONPYCACHEPREFIX"] = COMPILED
            argv = ["/usr/bin/bash", "-c", request["command"]]
        else:
            program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_tests.py")
            inside = "1" if request.get("in_process") else "0"
            argv = [sys.executable, "-s", "-P", program, str(reports.fileno()), WORKSPACE, folder, inside, *given]
        ended = processes.run(argv, WORKSPACE, environment, request["timeout_s"], descriptors=(reports.fileno(),))
        reports.seek(0)
        lines = reports.read(MAX_REPORT_BYTES).decode("utf-8", "replace").splitlines()
    exited = ended.status is not None and os.WIFEXITED(ended.status)
    return {
        "status": "ok",
        "exit_status": os.WEXITSTATUS(ended.status) if exited and ended.status is not None else None,
        "stopped": ended.stopped,
        "output": ended.text(),
        "reports": lines if given is not None else None,
    }
