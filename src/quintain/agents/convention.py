"""Agent World Model's text convention: a model that writes its calls as JSON between tags, in plain messages.

It has two functions, `list_tools` and `call_tool`. A model that names one of the environment's tools in place of
`call_tool` is understood.
"""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from quintain.agents import thoughts
from quintain.agents.answers import MAX_CALLS
from quintain.agents.base import AgentLimits, Completer, Observation, observed, shown
from quintain.agents.calls import MalformedCall, action, checked_arguments, read_arguments, said, speech
from quintain.agents.dialogue import Dialogue
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, EndReason, TurnRecord

JsonObject = dict[str, Any]

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
LIST_TOOLS: Final = "list_tools"
CALL_TOOL: Final = "call_tool"

_DECODER: Final = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class ListTools:
    """The model asks for the tools."""


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True)
class Broken:
    """A call that cannot be read, and why."""

    problem: str


Wanted = ListTools | Call | Broken


def shipped_prompt() -> str:
    """The system prompt that explains the convention."""
    return resources.files("quintain.agents").joinpath("prompts", "text_convention.md").read_text(encoding="utf-8")


def wanted(text: str) -> list[Wanted]:
    """The calls in a message, in order; none where it is a final answer. Whatever is between tags is read or broken."""
    text = thoughts.after_lead(text)
    found: list[Wanted] = []
    place, begin = 0, text.find(OPEN)
    while begin >= 0:
        thought = text.find(thoughts.BEGIN, place, begin)
        if thought >= 0:
            end = text.find(thoughts.END, thought)
            if end < 0:
                break
            place = end + len(thoughts.END)
        elif len(found) == MAX_CALLS:
            found.append(Broken(f"a message holds at most {MAX_CALLS} calls; make the others in the next"))
            break
        else:
            one, place = _read(text, begin + len(OPEN))
            found.append(one)
        if begin < place:
            begin = text.find(OPEN, place)
    return found


def _read(text: str, begin: int) -> tuple[Wanted, int]:
    """The call that begins at a place, and where it ends."""
    start = _skipped(text, begin)
    try:
        # decoded from its beginning: a string in it may hold braces and tags
        value, end = _DECODER.raw_decode(text, start)
    except ValueError as error:
        return Broken(f"what follows {OPEN} is not JSON ({error}); write one JSON object"), _end(text, begin)
    except RecursionError:
        return Broken("the call is nested too deeply; flatten it"), _end(text, begin)
    rest = text[end : _end(text, end)]
    if rest.endswith(CLOSE) and rest.removesuffix(CLOSE).strip().strip("`"):  # where no tag closes it, prose may follow
        return Broken(f"more follows the JSON object before {CLOSE}; write one object"), _end(text, end)
    try:
        return _understood(value), _end(text, end)
    except MalformedCall as error:
        return Broken(str(error)), _end(text, end)


def _skipped(text: str, place: int) -> int:
    """Past blanks and the beginning of a code fence."""
    inner = text[place:].lstrip()
    place = len(text) - len(inner)
    if not inner.startswith("`"):
        return place
    inner = inner.lstrip("`")
    inner = inner.removeprefix("json").removeprefix("JSON").lstrip()
    return len(text) - len(inner)


def _end(text: str, place: int) -> int:
    """Where the call before a place ends: past its closing tag, or before the next call."""
    close, following = text.find(CLOSE, place), text.find(OPEN, place)
    if close >= 0 and (following < 0 or close < following):
        return close + len(CLOSE)
    return following if following >= 0 else len(text)


def _understood(value: Any) -> Wanted:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise MalformedCall('a call is an object like {"name": "call_tool", "arguments": {...}}')
    name = value["name"]
    arguments = _arguments(value.get("arguments", value.get("parameters")))
    if name == LIST_TOOLS:
        return ListTools()
    if name != CALL_TOOL:
        return Call(name, arguments)
    inner = arguments.get("tool_name", arguments.get("name"))
    if not isinstance(inner, str):
        raise MalformedCall(f"{CALL_TOOL} needs tool_name, a string, and arguments, an object")
    return Call(inner, _arguments(arguments.get("arguments")))


def _arguments(value: Any) -> JsonObject:
    if value is None:
        return {}
    return read_arguments(value) if isinstance(value, str) else checked_arguments(value)


class TextConventionAgent:
    """Plays an episode with a model that knows tools only by the convention. One agent plays one episode.

    A message without a call ends the episode, unless the environment has a tool `respond`: then it is sent through
    that, and what comes back is shown as the user's next message.

    Several calls in one message are made one after another, and all results are shown in the next. `list_tools` is
    answered here and is no step of the episode. Errors are as `ChatAgent` has them.
    """

    def __init__(
        self,
        completer: Completer,
        task: str,
        *,
        limits: AgentLimits | None = None,
        system_prompt: str | None = None,
        model_digest: str | None = None,
    ) -> None:
        """`system_prompt` takes the place of the shipped one."""
        self.model_digest = model_digest
        prompt = shipped_prompt() if system_prompt is None else system_prompt
        opening = [{"role": "system", "content": prompt}, {"role": "user", "content": task}]
        self._dialogue = Dialogue(completer, limits or AgentLimits(), opening)
        self._pending: deque[Wanted] = deque()
        self._results: list[str] = []
        self._made = False
        self._speaking = False

    @property
    def final_answer(self) -> str | None:
        """The message in which it made no call, or what it said last where the environment ended the episode.

        Without its thoughts; None where a limit or a refusal ended it.
        """
        return self._dialogue.final_answer

    @property
    def turns(self) -> Sequence[TurnRecord]:
        """Its exchanges with the model."""
        return tuple(self._dialogue.turns)

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it acts."""
        return self._dialogue.ending

    async def act(self, tools: Sequence[Tool], last: Any) -> CallToolAction | None:
        """The next call; None at the end. See `ChatAgent.act`."""
        if self._made:
            self._answered(observed(last))
            self._made = False
        elif self._speaking:
            self._speaking = False
            self._dialogue.say({"role": "user", "content": self._shown(observed(last))})
        while self.ending is None:
            while self._pending and self.ending is None:
                if (call := self._next(tools)) is not None:
                    return call
            if self.ending is None and (call := await self._turn(tools)) is not None:
                return call
        return None

    def environment_ended(self, last: Any) -> None:
        """Its last call ended the episode; `last` is what that came to."""
        self._dialogue.ended_by_environment(observed(last).text)

    async def _turn(self, tools: Sequence[Tool]) -> CallToolAction | None:
        """The model's next message; a call where it says something that is heard."""
        if self._results:
            blocks = "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in self._results)
            self._dialogue.say({"role": "user", "content": blocks})
            self._results = []
        completion = await self._dialogue.turn()
        if completion is None:
            return None
        text = completion.text or ""
        self._pending.extend(wanted(text))
        if self._pending:
            return None
        text = thoughts.spoken(text)
        call = speech(tools, text)
        if call is None:
            self._dialogue.end(EndReason.FINISHED, final_answer=text)
        elif self._dialogue.step():
            self._dialogue.spoke(text, plainly=True)
            self._speaking = True
            return call
        return None

    def _next(self, tools: Sequence[Tool]) -> CallToolAction | None:
        """The next call that can be made; None where there is nothing to do in the environment."""
        one = self._pending.popleft()
        if isinstance(one, ListTools):
            self._answered(Observation(text=_listed(tools)), limit=2**31)
        elif isinstance(one, Broken):
            if self._dialogue.malformed(one.problem):
                self._answered(Observation(text=f"the call was not made: {one.problem}", failed=True))
        elif self._dialogue.step():
            self._made = True
            call = action(one.name, one.arguments)
            if (text := said(call)) is not None:
                self._dialogue.spoke(text)
            return call
        return None

    def _answered(self, observation: Observation, limit: int | None = None) -> None:
        self._results.append(self._shown(observation, limit))

    def _shown(self, observation: Observation, limit: int | None = None) -> str:
        text = shown(observation, limit or self._dialogue.limits.max_observation_chars)
        return f"error: {text}" if observation.failed else text


def _listed(tools: Sequence[Tool]) -> str:
    """The tools as the model reads them."""
    return json.dumps(
        [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools],
        ensure_ascii=False,
    )
