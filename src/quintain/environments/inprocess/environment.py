"""The environment of the kinds that run in process: what is called, when, with what; the state is data.

No code of a pack runs: a document says what a call comes to. So there is no process to lose, and nothing to isolate.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from quintain.contracts.expression_cost import MAX_WORK
from quintain.contracts.expressions import TooLongTogether, spending
from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import whole_text
from quintain.environments.base import MAX_RESULT_BYTES, OWNERS, Hibernation, ToolOutcome, ToolStatus
from quintain.environments.inprocess.machine import STATE, Call, Machine, State, Turn, counted
from quintain.environments.inprocess.schemas import ArgumentCheck
from quintain.errors import ExpressionError, SandboxError, SandboxLost
from quintain.sandboxes.base import StateFile

JsonObject = dict[str, Any]

START_KIND: Final = "in_process"

MAX_TOGETHER: Final = 20 * MAX_WORK
"""Most work of all expressions and patterns of a call together: about a second. What would take more than one of them
may is done in a thread, where others have their turn between one expression and the next."""

_MAX_ERROR: Final = 64 * 1024


class InProcessEnvironment:
    """One episode on a machine; see `Environment`."""

    def __init__(self, machine: Machine, checks: Mapping[str, ArgumentCheck], *, scratch: Path | None = None) -> None:
        """`checks` are of the machine's tools; `scratch` is where the initial state is written when asked for."""
        self._machine = machine
        self._checks = checks
        self._scratch = scratch
        self._seed = 0
        self._initial: State | None = None
        self._state: State | None = None
        self._folder: Path | None = None
        self._segments: dict[str, float] = {}

    @property
    def tools(self) -> Sequence[Tool]:
        """The environment's tools."""
        return self._machine.tools

    @property
    def start_kind(self) -> str:
        """in_process: there is no instance that was cold or warm."""
        return START_KIND

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds that the initial state took."""
        return self._segments

    @property
    def initial(self) -> Sequence[StateFile]:
        """The file of the initial state, written when it is first asked for and removed at the end."""
        if self._initial is None:
            return []
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="quintain_initial_", dir=self._scratch))
            (self._folder / STATE).write_bytes(self._initial.file)
        return [StateFile(STATE, self._folder / STATE)]

    @property
    def done(self) -> bool:
        """Whether the environment has ended the episode."""
        return self._state is not None and self._state.done

    @property
    def hibernated(self) -> bool:
        """There is no process, so none that was given back."""
        return False

    async def reset(self, seed: int, start: JsonObject | None = None) -> None:
        """Start from the initial state.

        Raises:
            SandboxError: this environment was reset before.
            TemplateError: the environment cannot start so.
        """
        if self._initial is not None:
            raise SandboxError("this environment was reset before; make a new one for a new episode")
        began = time.perf_counter()
        self._seed = seed
        self._initial = self._state = self._machine.begin(seed, start or {})
        self._segments = {"begin": (time.perf_counter() - began) * 1000}

    async def call(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """Call a tool; see `Environment.call`."""
        began = time.perf_counter()
        outcome = await self._called(name, arguments, timeout_s)
        return outcome.model_copy(update={"duration_ms": (time.perf_counter() - began) * 1000})

    async def snapshot(self, into: Path) -> list[StateFile]:
        """Write the state into a directory."""
        if self._state is None:
            raise SandboxLost("the environment has no state; reset it first")
        (into / STATE).write_bytes(self._state.file)
        return [StateFile(STATE, into / STATE)]

    async def hibernate(self, unwanted: Callable[[], bool] = lambda: False) -> Hibernation:
        """There is no process to give back."""
        return Hibernation(done=False, why="it runs in process: there is no process to give back")

    async def close(self) -> None:
        """Forget the state, and remove the file of the initial one. Idempotent."""
        folder, self._folder = self._folder, None
        self._state = None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    async def _called(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        before = self._state
        if before is None:
            return failure(ToolStatus.SERVER_ERROR, "the environment has no state; reset it first")
        if before.done:
            return failure(ToolStatus.TOOL_ERROR, f"the episode has ended; {name[:200]} was not done")
        before = self._state = before.having(seconds=before.seconds + 1)
        check = self._checks.get(name)
        if check is None:
            return failure(
                ToolStatus.TOOL_NOT_FOUND, f"no tool is called {name[:200]!r}; list the tools to see which are"
            )
        return await self._acted(before, check, Call(name, arguments, before.seconds, self._seed), timeout_s)

    async def _acted(self, before: State, check: ArgumentCheck, call: Call, timeout_s: float) -> ToolOutcome:
        try:
            try:
                turn = self._turn(before, check, call, MAX_WORK)
            except TooLongTogether:  # a turn changes nothing, so it can be begun anew
                turn = await asyncio.to_thread(self._turn, before, check, call, MAX_TOGETHER)
        except ExpressionError as error:
            self._state = counted(before, call, False)
            log = f"{call.name}: {whole_text(str(error))}\n"
            return failure(ToolStatus.SERVER_ERROR, f"{call.name} failed inside the environment", log=log)
        if isinstance(turn, str):
            return failure(ToolStatus.INVALID_ARGS, turn)
        latency_s = turn.latency_ms / 1000
        if latency_s:
            await asyncio.sleep(min(latency_s, timeout_s))
        if latency_s >= timeout_s:
            self._state = counted(before, call, False)
            error_text = f"{call.name} did not answer within {timeout_s:g} s; nothing of it was done"
            return failure(ToolStatus.TIMEOUT, error_text)
        self._state = counted(turn.state, call, turn.status is ToolStatus.OK)
        return _outcome(call.name, turn)

    def _turn(self, before: State, check: ArgumentCheck, call: Call, work: int) -> Turn | str:
        """What a call comes to, or why its arguments are refused, if its expressions take no more work than that."""
        with spending(work):
            if problem := check.problem(call.arguments):
                return f"arguments of {call.name} were refused: {problem}"
            return self._machine.act(before, replace(call, arguments=check.typed(call.arguments)))


def _outcome(name: str, turn: Turn) -> ToolOutcome:
    text = whole_text(turn.text)
    if turn.status is not ToolStatus.OK:
        return failure(turn.status, text[:_MAX_ERROR])
    if len(text.encode()) > MAX_RESULT_BYTES:
        limit = MAX_RESULT_BYTES // 2**20
        return failure(ToolStatus.TOOL_ERROR, f"the result of {name} is over {limit} MiB; ask for less")
    return ToolOutcome(status=ToolStatus.OK, text=text)


def failure(status: ToolStatus, error: str, *, log: str = "") -> ToolOutcome:
    """An outcome that is no success."""
    return ToolOutcome(status=status, error=error, log=log, owner=OWNERS[status])
