"""One episode of an MCP server in a sandbox: what is called, when, with what. The state is what the last call told."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import whole_text
from quintain.environments.base import MAX_RESULT_BYTES, ToolOutcome, ToolStatus
from quintain.environments.inprocess.environment import failure
from quintain.environments.inprocess.schemas import ArgumentCheck
from quintain.environments.mcp.models import Answer, start_of, tools_of
from quintain.environments.python.environment import state_file
from quintain.environments.resident import ResidentEnvironment
from quintain.errors import CallTimeout, ResultTooLarge, SandboxError, SandboxLost, TemplateError
from quintain.sandboxes.disposal import Disposal

if TYPE_CHECKING:
    from quintain.environments.mcp.kind import ReadyMcp

JsonObject = dict[str, Any]

_GRACE_S: Final = 20.0
_MAX_ERROR: Final = 64 * 1024
_MAX_LOG: Final = 64 * 1024
_END: Final = "what it remembered is gone, so the episode ends here"


class McpEnvironment(ResidentEnvironment):
    """One episode; see `Environment`."""

    def __init__(self, ready: "ReadyMcp", disposal: Disposal, *, scratch: Path | None = None) -> None:
        """`scratch` is where the initial state is written when asked for."""
        super().__init__(disposal, scratch)
        self._ready = ready
        self._tools: Sequence[Tool] = ready.tools
        self._checks: dict[str, ArgumentCheck] = {}

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the server has now."""
        return self._tools

    @property
    def start_kind(self) -> str:
        """cold, template_fork, or warm_claim of a process that stood by; a server is started in each case."""
        if self._ready.start_kind == "template_fork" and self._sandbox is not None and self._sandbox.stood_by:
            return "warm_claim"
        return self._ready.start_kind

    @property
    def done(self) -> bool:
        """Whether the server is gone."""
        return self._lost is not None

    async def reset(self, seed: int, start: JsonObject | None = None) -> None:
        """Claim a clean sandbox and start the server in it.

        Args:
            seed: of the episode; the server finds it in QUINTAIN_SEED.
            start: `{"files": {path: text}, "remove": [paths]}`.

        Raises:
            SandboxError: no instance could be started, or this environment was reset before.
            TemplateError: the server does not start so.
        """
        from quintain.environments.mcp.kind import begin

        if self._sandbox is not None:
            raise SandboxError("this environment was reset before; make a new one for a new episode")
        ready = self._ready
        varied = start_of(ready.scenario, start)
        self._sandbox = await ready.claim(seed)
        begun = await begin(self._sandbox, ready.document, ready.scenario, seed, varied)
        self._tools = tools_of(ready.scenario, begun.tools or [], ready.document.exclude)
        self._state = begun.state or ""
        self._initial = await self._file()

    async def _called(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        if self._sandbox is None or self._initial is None:
            return failure(ToolStatus.SERVER_ERROR, "the environment has no state; reset it first")
        if self._lost is not None:
            return failure(ToolStatus.SERVER_ERROR, f"{self._lost}; {_END}")
        tool = next((one for one in self._tools if one.name == name), None)
        if tool is None:
            return failure(
                ToolStatus.TOOL_NOT_FOUND, f"no tool is called {name[:200]!r}; list the tools to see which are"
            )
        check = self._checks.setdefault(name, ArgumentCheck(tool))
        if problem := check.problem(arguments):
            return failure(ToolStatus.INVALID_ARGS, f"arguments of {name} were refused: {problem}")
        limit = min(timeout_s, self._ready.document.timeout or timeout_s)
        request = {"op": "tool", "name": name, "arguments": check.typed(arguments), "timeout_s": limit}
        try:
            answer = await self._sandbox.call(request, limit + _GRACE_S)
        except CallTimeout:
            self._lost = f"the sandbox was stopped, as {name} did not end"
            return failure(ToolStatus.TIMEOUT, f"{self._lost}; {_END}")
        except SandboxLost:
            self._lost = f"the sandbox ended during {name}"
            return failure(ToolStatus.SERVER_ERROR, f"{self._lost}; {_END}")
        except ResultTooLarge:
            self._lost = f"{name} told more than is accepted"
            return failure(ToolStatus.SERVER_ERROR, f"{self._lost}; {_END}")
        return self._outcome(name, answer)

    def _outcome(self, name: str, answer: JsonObject) -> ToolOutcome:
        try:
            checked = Answer.model_validate(answer)
            if checked.tools is not None:
                self._tools = tools_of(self._ready.scenario, checked.tools, self._ready.document.exclude)
                self._checks.clear()
        except ValidationError as error:
            return failure(ToolStatus.SERVER_ERROR, f"{name} answered what is no answer ({error.error_count()} errors)")
        except TemplateError as error:
            self._lost = str(error)
            return failure(ToolStatus.SERVER_ERROR, f"{error}; {_END}")
        if checked.state is not None:
            self._state = checked.state
        log = whole_text(checked.log[:_MAX_LOG])
        words = whole_text(checked.error or f"{name} failed and gave no reason")[:_MAX_ERROR]
        if checked.ended:
            self._lost = words
            words = f"{words}; {_END}"
        status = ToolStatus(checked.status)
        if status is not ToolStatus.OK:
            return failure(status, words, log=log)
        text = whole_text(checked.text or "")
        if len(text.encode()) > MAX_RESULT_BYTES:
            limit = MAX_RESULT_BYTES // 2**20
            return failure(ToolStatus.TOOL_ERROR, f"the result of {name} is over {limit} MiB; ask for less", log=log)
        return ToolOutcome(status=ToolStatus.OK, text=text, log=log)

    async def _file(self) -> bytes:
        return await asyncio.to_thread(state_file, self._state, None)
