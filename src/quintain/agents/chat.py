"""An agent whose model calls tools natively, as OpenAI's chat completions have it."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from quintain.agents.base import AgentLimits, Completer, Observation, function_tools, observed, shown
from quintain.agents.calls import MalformedCall, action, read_arguments, said, speech
from quintain.agents.dialogue import Dialogue
from quintain.agents.thoughts import spoken
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, EndReason, RequestedCall, TurnRecord

JsonObject = dict[str, Any]


class ChatAgent:
    """Asks a model for each next call and shows it what came back. One agent plays one episode.

    Calls that a model makes in one answer are made one after another, in the order in which it wrote them, and all are
    answered before it is asked again. When a limit ends the episode among them, the rest are not made. Arguments that
    are no JSON object are not sent: the model is told what is wrong with them, `max_malformed` times in all.

    Plain text ends the episode, unless the environment has a tool `respond`: then it is sent through that, and what
    comes back is shown as the user's next message.

    Raises from `act` what the completer raises (EndpointError). The agent is then as it was before, so the same `act`
    may be repeated, with the same `last`.
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
        """`model_digest` names the model in scores and records, where the caller has a name for it."""
        self.model_digest = model_digest
        opening: list[JsonObject] = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
        self._dialogue = Dialogue(completer, limits or AgentLimits(), [*opening, {"role": "user", "content": task}])
        self._pending: deque[RequestedCall] = deque()
        self._made: RequestedCall | None = None
        self._speaking = False

    @property
    def final_answer(self) -> str | None:
        """The answer in which it made no call, or what it said last where the environment ended the episode.

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
        """The next call; None at the end.

        Args:
            tools: the environment's tools.
            last: what the call before came to; see `observed`.

        Raises:
            EndpointError: the model's endpoint gave no answer.
        """
        if self._made is not None:
            self._answered(self._made, observed(last))
            self._made = None
        elif self._speaking:
            self._speaking = False
            self._dialogue.say({"role": "user", "content": self._shown(observed(last))})
        while self.ending is None:
            while self._pending and self.ending is None:
                if (call := self._next()) is not None:
                    return call
            if self.ending is None and (completion := await self._dialogue.turn(function_tools(tools))) is not None:
                self._pending.extend(completion.calls)
                if not completion.calls and (call := self._say(spoken(completion.text or ""), tools)) is not None:
                    return call
        return None

    def environment_ended(self, last: Any) -> None:
        """Its last call ended the episode; `last` is what that came to."""
        self._dialogue.ended_by_environment(observed(last).text)

    def _say(self, text: str, tools: Sequence[Tool]) -> CallToolAction | None:
        """The call that says a text; None where nobody hears it and it is the answer, or no call may be made."""
        call = speech(tools, text)
        if call is None:
            self._dialogue.end(EndReason.FINISHED, final_answer=text)
        elif self._dialogue.step():
            self._dialogue.spoke(text, plainly=True)
            self._speaking = True
            return call
        return None

    def _next(self) -> CallToolAction | None:
        """The next call that can be made; None where it was given back to the model, or the end has come."""
        wanted = self._pending.popleft()
        try:
            arguments = read_arguments(wanted.arguments)
        except MalformedCall as error:
            if self._dialogue.malformed(str(error)):
                self._answered(wanted, Observation(text=f"the call was not made: {error}", failed=True))
            return None
        if not self._dialogue.step():
            return None
        self._made = wanted
        call = action(wanted.name, arguments)
        if (text := said(call)) is not None:
            self._dialogue.spoke(text)
        return call

    def _answered(self, call: RequestedCall, observation: Observation) -> None:
        self._dialogue.say({"role": "tool", "tool_call_id": call.id, "content": self._shown(observation)})

    def _shown(self, observation: Observation) -> str:
        text = shown(observation, self._dialogue.limits.max_observation_chars)
        return f"error: {text}" if observation.failed else text
