"""`import workspace`, in hidden tests: the tree's code runs in processes of its own, which find nothing of the tests.

What a test expects stays in its own process. That one cannot be looked into, no file of the tests is left when the
first such process starts, and what comes back is JSON.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

TREE = "/workspace"
VARIABLES: dict[str, Any] = {}
"""What the seed drew."""

FILES: dict[str, bytes] = {}
"""The files of the tests' folder, by path; the folder itself is gone when tests run."""

SECONDS = 20.0
"""How long such a process may take, unless a test says otherwise."""

MAX_BYTES = 8 * 2**20

COMPILED = ""
"""Where programs look for what Python compiled; set by whoever imports this."""

_ready = False
_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")


class TreeError(Exception):
    """What the tree's code raised, by the name of its class, or why there is no result."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def call(where: str, /, *args: Any, seconds: float = SECONDS, **named: Any) -> Any:
    """Call a function of the tree: `call("sums:total", [1, 2])`.

    Args:
        where: module and name in it, with a colon between them.
        args: JSON values, as `named`.

    Returns:
        What it returned, as JSON has it: tuples are lists, and keys are text.

    Raises:
        TreeError: it raised, ended, took too long, or returned what is no JSON.
    """
    return _told({"where": where, "code": None, "args": args, "named": named}, seconds)


def evaluate(code: str, /, *, seconds: float = SECONDS, **given: Any) -> Any:
    """Run code in the tree, such as `from sums import Total; result = Total([1]).value`; what `result` then is.

    Args:
        given: names for the code, JSON values. Put nothing in it that a test expects.

    Raises:
        TreeError: as for `call`.
    """
    return _told({"where": "", "code": code, "args": [], "named": given}, seconds)


def run(*argv: str, stdin: str = "", seconds: float = SECONDS) -> "subprocess.CompletedProcess[str]":
    """Run a program in the tree, `run("python", "tool.py")`; status and texts, of which bytes that are no UTF-8 are
    replaced.

    Raises:
        TreeError: it took too long, or cannot be started.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        words = [sys.executable, *argv[1:]] if argv[0] in ("python", "python3") else list(argv)
        status = _run(words, stdin.encode(), seconds, out, err, PYTHONPYCACHEPREFIX=COMPILED)
        return subprocess.CompletedProcess(argv, status, _read(out), _read(err))


def _told(request: dict[str, Any], seconds: float) -> Any:
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as printed:
        command = [sys.executable, "-s", "-P", _CHILD, str(told.fileno())]
        status = _run(command, json.dumps(request).encode(), seconds, printed, printed, (told.fileno(),))
        print(_read(printed)[-4000:], end="")
        try:
            answer = json.loads(_read(told))
            if "error" in answer:
                raise TreeError(str(answer["error"])[:200], str(answer["message"])[:4000])
            return answer["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TreeError("NoResult", f"the process told nothing and ended with {status}") from None


def _run(
    command: list[str],
    stdin: bytes,
    seconds: float,
    out: Any,
    err: Any,
    descriptors: tuple[int, ...] = (),
    **variables: str,
) -> int:
    if not _ready:
        raise RuntimeError("the tree's code runs in tests, not while files of tests are imported: they are there yet")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONSAFEPATH"))}
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                command,
                cwd=TREE,
                env=kept | variables,
                stdin=given,
                stdout=out,
                stderr=err,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise TreeError("NotStarted", str(error)) from error
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise TreeError("Timeout", f"it took over {seconds:g} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.wait()


def _read(file: Any) -> str:
    file.seek(0)
    return str(file.read(MAX_BYTES).decode("utf-8", "replace"))
