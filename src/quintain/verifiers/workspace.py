"""Hidden tests of a workspace: run on the final tree, in a fresh sandbox of the class that the agent had.

The agent was never there, and the tests were never where the agent was. Which tests there are is read from their
source here, so that nothing which the tree's code does can make there be fewer; each of them must be told to have
passed. The tree's code runs in processes of its own, unless tests are said to import it: such code can do whatever a
test can.
"""

import ast
import base64
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from quintain.contracts.identity import digest_of
from quintain.contracts.untrusted import whole_text
from quintain.errors import CallTimeout, ResultTooLarge, SandboxLost, VerifierError
from quintain.sandboxes.base import JsonObject, Sandbox, SandboxClass, SandboxProvider, StateFile
from quintain.sandboxes.disposal import Disposal
from quintain.sandboxes.trees import tar_of
from quintain.tasks.base import HiddenTests

TREES_DISK_BYTES: Final = 640 * 2**20
"""Disk of a sandbox in which a verifier has two trees, and the files that they come from."""

MAX_TESTS: Final = 2000
"""Most tests whose outcome is told."""

_GRACE_S = 30.0
_MAX_OUTPUT = 16 * 1024


class RunsTests(Protocol):
    """What runs hidden tests."""

    async def run(
        self,
        tests: HiddenTests,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        variables: JsonObject | None,
    ) -> JsonObject:
        """What they come to: `passed` and `failed` by name, `complete`, `error`, `exit_status`, `output`.

        Raises:
            VerifierError: the tests themselves are of no use.
            SandboxError: they could not be run.
        """
        ...


class _Ran(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    exit_status: int | None = None
    stopped: str = ""
    output: str = ""
    reports: list[str] | None = None


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    test: str | None = None
    outcome: str = ""
    when: str = ""
    finished: int | None = None


class WorkspaceTests:
    """Runs hidden tests in sandboxes of a class; see `RunsTests`."""

    def __init__(
        self,
        provider: SandboxProvider,
        sandbox_class: SandboxClass,
        *,
        scratch: Path | None = None,
        disposal: Disposal | None = None,
    ) -> None:
        self._provider = provider
        self._class = sandbox_class
        self._scratch = scratch
        self._disposal = disposal or Disposal()
        self._key = digest_of({"class": sandbox_class.name, "role": "tests"})

    async def run(
        self,
        tests: HiddenTests,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        variables: JsonObject | None,
    ) -> JsonObject:
        """Run them, once more where the first sandbox was lost: that may be the platform's doing or the tree's."""
        expected = None if tests_program(tests.command) is None else expected_tests(tests)
        with tempfile.TemporaryDirectory(prefix="quintain_tests_", dir=self._scratch) as directory:
            folder = Path(directory)
            tar, _ = tar_of({path: (0o644, data) for path, data in _content(tests).items()})
            (folder / "tests.tar").write_bytes(tar)
            files = [StateFile("tests.tar", folder / "tests.tar"), *_state(initial, final)]
            request = {
                "op": "tests",
                "command": tests.command,
                "timeout_s": tests.timeout_s,
                "variables": variables or {},
                "in_process": tests.in_process,
            }
            try:
                answer = await self._answer(files, request, tests.timeout_s)
            except (SandboxLost, CallTimeout):
                try:
                    answer = await self._answer(files, request, tests.timeout_s)
                except (SandboxLost, CallTimeout) as error:
                    return outcome({"stopped": f"the sandbox ended twice while they ran: {error}"}, expected)
        return outcome(answer, expected)

    async def _answer(self, files: Sequence[StateFile], request: JsonObject, timeout_s: float) -> JsonObject:
        sandbox = await self._sandbox(files)
        try:
            return await sandbox.call(request, timeout_s + _GRACE_S)
        except ResultTooLarge as error:
            return {"stopped": f"what they came to is too large: {error}"}
        finally:
            await self._disposal.dispose(sandbox)

    async def _sandbox(self, files: Sequence[StateFile]) -> Sandbox:
        template = await self._provider.template(self._class, self._key, {}, warm=True)
        return await self._provider.claim(template, {}, files)


def tests_program(command: str) -> str | None:
    """`pytest` where a command runs that, else None."""
    words = command.split()
    starts = (["python", "-m", "pytest"], ["python3", "-m", "pytest"], ["pytest"])
    return "pytest" if any(words[: len(start)] == start for start in starts) else None


def expected_tests(tests: HiddenTests) -> list[str]:
    """The names of the tests that stand in the files: `test_a.py::test_one`, `test_a.py::TestTwo::test_three`.

    Raises:
        VerifierError: a file is no Python, or there is no test.
    """
    names = []
    for path, data in sorted(_content(tests).items()):
        name = path.rpartition("/")[2]
        if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
            try:
                module = ast.parse(data)
            except (SyntaxError, ValueError) as error:
                raise VerifierError(f"the hidden test {path} is not Python: {error}") from error
            names += [f"{path}::{one}" for one in _tests_in(module.body, "test")]
    if not names:
        raise VerifierError("the hidden tests hold no test; name files test_….py, with functions test_…")
    return names


def _tests_in(body: Sequence[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(prefix):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from (f"{node.name}::{one}" for one in _tests_in(node.body, prefix))


def outcome(answer: Mapping[str, Any], expected: Sequence[str] | None) -> JsonObject:
    """What a run came to, as verifier code gets it; what the sandbox says is checked.

    Args:
        expected: the tests that must have passed; None: the command is not pytest, and only its exit status counts.
    """
    try:
        ran = _Ran.model_validate(answer)
    except ValidationError as error:
        ran = _Ran(stopped=f"the run answered what is not an answer ({error.error_count()} errors)")
    passed, failed, finished = _results(ran.reports or ())
    missing = [] if expected is None else sorted(set(expected) - {_base(name) for name in passed})
    wrong = ran.stopped
    if not wrong and expected is not None and not finished:
        wrong = "the tests' process ended before all were run"
    if not wrong and missing and not failed:
        wrong = f"not told to have passed: {', '.join(missing[:20])}"
    return {
        "passed": passed[:MAX_TESTS],
        "failed": sorted({*failed, *missing})[:MAX_TESTS],
        "complete": ran.exit_status == 0 and not wrong and not failed and not missing,
        "error": whole_text(wrong)[:2000] or None,
        "exit_status": ran.exit_status,
        "output": whole_text(ran.output[-_MAX_OUTPUT:]),
    }


def _results(lines: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Tests that passed, those that did not, and whether all were run; a later word cannot mend an earlier one."""
    called: set[str] = set()
    spoilt: set[str] = set()
    finished = False
    for line in lines:
        try:
            told = _Line.model_validate(json.loads(line))
        except (ValidationError, ValueError, RecursionError):
            continue
        if told.finished is not None:
            finished = True
        elif told.test is not None:
            name = whole_text(told.test)[:500]
            if told.outcome != "passed":
                spoilt.add(name)
            elif told.when == "call":
                called.add(name)
    return sorted(called - spoilt), sorted(spoilt), finished


def _base(name: str) -> str:
    """A test's name without its parameters."""
    return name.partition("[")[0]


def _content(tests: HiddenTests) -> dict[str, bytes]:
    found = {}
    for path, given in tests.files.items():
        if any(part in ("", ".", "..") for part in path.split("/")):
            raise VerifierError(f"the hidden test's path {path[:80]!r} is no path within a folder")
        try:
            found[path] = given.encode() if isinstance(given, str) else base64.b64decode(given["base64"], validate=True)
        except (KeyError, ValueError) as error:
            raise VerifierError(f"the hidden test's file {path} is neither text nor base64") from error
    return found


def _state(initial: Sequence[StateFile], final: Sequence[StateFile]) -> list[StateFile]:
    """The two states as files of a sandbox: the final one, over the initial one where it holds changes."""
    if not initial or not final:
        raise VerifierError("a state of the workspace is missing; the tests cannot be run")
    return [StateFile("base.tar", initial[0].path), StateFile("tree.tar", final[0].path)]
