"""One episode of Python code in a sandbox: what is called, when, with what. The state is what the last call told."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from quintain.contracts.tools import RESPOND, Tool
from quintain.contracts.untrusted import whole_text
from quintain.environments.base import MAX_RESULT_BYTES, ToolOutcome, ToolStatus
from quintain.environments.inprocess.environment import failure
from quintain.environments.inprocess.schemas import ArgumentCheck
from quintain.environments.python.conversation import CONVERSATION, Conversation
from quintain.environments.python.models import MAX_STATE_BYTES, Answer, Begun
from quintain.environments.resident import ResidentEnvironment
from quintain.errors import CallTimeout, ResultTooLarge, SandboxError, SandboxLost, TemplateError
from quintain.sandboxes.disposal import Disposal

if TYPE_CHECKING:
    from quintain.environments.python.kind import ReadyPython

JsonObject = dict[str, Any]

TURNS: Final = "turns"
"""Key of the state under which the turns of a conversation stand."""

_BEGIN_TIMEOUT_S: Final = 30.0
_MAX_ERROR: Final = 64 * 1024
_MAX_LOG: Final = 64 * 1024
_END: Final = "its state cannot be brought back, so the episode ends here"


class PythonEnvironment(ResidentEnvironment):
    """One episode; see `Environment`."""

    def __init__(self, prepared: "ReadyPython", disposal: Disposal, *, scratch: Path | None = None) -> None:
        """`scratch` is where the initial state is written when asked for."""
        super().__init__(disposal, scratch)
        self._prepared = prepared
        self._conversation: Conversation | None = None
        self._seed = 0
        self._calls = 0
        self._ended = False

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that there are now."""
        return self._prepared.tools if self._conversation is None else self._conversation.tools

    @property
    def start_kind(self) -> str:
        """cold, cached_cold, template_fork, or warm_claim of a process that stood by."""
        if self._prepared.start_kind == "template_fork" and self._sandbox is not None and self._sandbox.stood_by:
            return "warm_claim"
        return self._prepared.start_kind

    @property
    def done(self) -> bool:
        """Whether the environment has ended the episode, or its process is gone."""
        over = self._conversation is not None and self._conversation.over
        return self._ended or self._lost is not None or over

    async def reset(self, seed: int, start: JsonObject | None = None) -> None:
        """Claim a clean process and let the code begin in it.

        Args:
            seed: of the episode.
            start: attributes, or what the document's `load` takes; `conversation` is the platform's.

        Raises:
            SandboxError: no instance could be started, or this environment was reset before.
            TemplateError: the code cannot begin so.
        """
        if self._sandbox is not None:
            raise SandboxError("this environment was reset before; make a new one for a new episode")
        start = dict(start or {})
        if (given := start.pop(CONVERSATION, None)) is not None:
            self._conversation = Conversation.of(given, self._prepared.tools)
        self._seed = seed
        self._sandbox = await self._prepared.claim(seed)
        self._state = await self._begun(start)
        self._initial = await self._file()

    async def _begun(self, start: JsonObject) -> str:
        assert self._sandbox is not None
        scenario = self._prepared.payload.get("scenario")
        try:
            answer = await self._sandbox.call({"op": "begin", "seed": self._seed, "start": start}, _BEGIN_TIMEOUT_S)
            begun = Begun.model_validate(answer)
        except (CallTimeout, SandboxLost, ResultTooLarge, ValidationError) as error:
            words = " ".join(str(error).split())[:500]
            raise TemplateError(f"an episode of {scenario!r} does not begin: {words}") from error
        if begun.state is None or len(begun.state) > MAX_STATE_BYTES:
            words = whole_text(begun.error or "it told no state, or one that is too large")[:8192]
            raise TemplateError(f"an episode of {scenario!r} does not begin: {words}")
        return begun.state

    async def _called(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        if self._sandbox is None or self._initial is None:
            return failure(ToolStatus.SERVER_ERROR, "the environment has no state; reset it first")
        if self._lost is not None:
            return failure(ToolStatus.SERVER_ERROR, f"the environment's process had {self._lost}; {_END}")
        if self.done:
            return failure(ToolStatus.TOOL_ERROR, f"the episode has ended; {name[:200]} was not done")
        self._calls += 1
        if all(name != tool.name for tool in self.tools):
            outcome = failure(
                ToolStatus.TOOL_NOT_FOUND, f"no tool is called {name[:200]!r}; list the tools to see which are"
            )
        elif problem := (check := self._check(name)).problem(arguments):
            outcome = failure(ToolStatus.INVALID_ARGS, f"arguments of {name} were refused: {problem}")
        elif name == RESPOND and self._conversation is not None:
            text = self._conversation.respond(arguments["message"], self._state)
            return ToolOutcome(status=ToolStatus.OK, text=text)
        else:
            outcome = await self._dispatched(name, check.typed(arguments), timeout_s)
        if self._conversation is not None:
            self._conversation.called(name[:200], arguments, outcome)
            if self._conversation.full:
                self._lost = "said more than is kept of a conversation"
        return outcome

    def _check(self, name: str) -> ArgumentCheck:
        known = self._prepared.checks.get(name)
        return known if known is not None else ArgumentCheck(next(one for one in self.tools if one.name == name))

    async def _dispatched(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        assert self._sandbox is not None
        request = {"op": "tool", "name": name, "arguments": arguments, "index": self._calls}
        limit = min(timeout_s, self._prepared.document.timeout or timeout_s)
        try:
            answer = await self._sandbox.call(request, limit)
        except CallTimeout:
            self._lost = "been stopped after a timeout"
            return failure(ToolStatus.TIMEOUT, f"{name} did not answer within {limit:g} s and was stopped; {_END}")
        except SandboxLost:
            self._lost = "ended without answering"
            return failure(ToolStatus.SERVER_ERROR, f"the process of {name} ended without answering; {_END}")
        except ResultTooLarge:
            self._lost = "told more than is accepted"
            return failure(ToolStatus.SERVER_ERROR, f"{name} told more than is accepted; {_END}")
        return self._outcome(name, answer)

    def _outcome(self, name: str, answer: JsonObject) -> ToolOutcome:
        try:
            checked = Answer.model_validate(answer)
        except ValidationError as error:
            return failure(ToolStatus.SERVER_ERROR, f"{name} answered what is no answer ({error.error_count()} errors)")
        if checked.state is not None:
            if len(checked.state) > MAX_STATE_BYTES:
                return failure(ToolStatus.SERVER_ERROR, f"the state after {name} is over {MAX_STATE_BYTES} bytes")
            self._state = checked.state
        self._ended = self._ended or checked.done
        log = whole_text(checked.log[:_MAX_LOG])
        status = ToolStatus(checked.status)
        if status is not ToolStatus.OK:
            words = whole_text(checked.error or f"{name} failed and gave no reason")[:_MAX_ERROR]
            return failure(status, words, log=log)
        text = whole_text(checked.text or "")
        if len(text.encode()) > MAX_RESULT_BYTES:
            limit = MAX_RESULT_BYTES // 2**20
            return failure(ToolStatus.TOOL_ERROR, f"the result of {name} is over {limit} MiB; ask for less", log=log)
        return ToolOutcome(status=ToolStatus.OK, text=text, log=log)

    async def _file(self) -> bytes:
        turns = None if self._conversation is None else self._conversation.turns(self._state)
        return await asyncio.to_thread(state_file, self._state, turns)


def state_file(state: str, turns: Sequence[JsonObject] | None) -> bytes:
    """The state's file: JSON with sorted keys, ASCII, without spaces. Equal states are equal bytes.

    Raises:
        TemplateError: what the code told is no JSON object, or has what the platform adds.
    """
    try:
        whole = _parsed(state)
        if turns is not None:
            if TURNS in whole:
                raise TemplateError(
                    f"the state has {TURNS!r}, where the turns of a conversation are to stand; rename it"
                )
            whole[TURNS] = [{**turn, "state": _parsed(turn["state"])} for turn in turns]
        return json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"the environment told a state that is no JSON object: {str(error)[:200]}") from error


def _parsed(text: str) -> JsonObject:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found
