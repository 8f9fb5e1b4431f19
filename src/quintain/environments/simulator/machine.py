"""A simulator: a state machine whose transitions are tool calls, with timers and a counterpart."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quintain.contracts.tools import Tool
from quintain.environments.base import ToolStatus
from quintain.environments.inprocess.answers import Answer, refusal
from quintain.environments.inprocess.findings import unknown
from quintain.environments.inprocess.kind import Payload
from quintain.environments.inprocess.machine import Call, Clock, State, Turn, begun, kept, varied
from quintain.environments.simulator.counterpart import Counterpart, Speech, respond_tool
from quintain.environments.simulator.models import (
    AT,
    COUNTERPART,
    RESPOND,
    SimulatorModel,
    TimerModel,
    TransitionModel,
)
from quintain.environments.simulator.moves import Move
from quintain.errors import TemplateError, UsageError
from quintain.tasks.packs.drawing import draw_all

JsonObject = dict[str, Any]


class SimulatorMachine:
    """One simulator. It keeps in the state where it is and since when, what was drawn, and which timers fired."""

    def __init__(self, model: SimulatorModel, scenario: str, clock: Clock) -> None:
        """Raises ExpressionError where an expression is none."""
        self._model = model
        self._scenario = scenario
        self._clock = clock
        spoken = model.counterpart
        self._counterpart = None if spoken is None else Counterpart(spoken)
        tools = [tool.tool for tool in model.tools] + ([] if spoken is None else [respond_tool(spoken)])
        self.tools: Sequence[Tool] = tuple(tools)
        self._transitions: dict[str, list[_Transition]] = {tool.name: [] for tool in tools}
        for one in model.transitions:
            self._transitions[one.tool].append(_Transition(one))
        self._otherwise = {
            tool.name: Answer(tool.otherwise or refusal(f"{tool.name} cannot be done now")) for tool in model.tools
        }
        self._timers = [_Timer(one) for one in model.timers]
        self._awaited = frozenset(one.call for one in model.timers if one.call is not None)

    @classmethod
    def of(cls, payload: Payload) -> "SimulatorMachine":
        """The simulator of a payload, of which `check` told nothing fatal."""
        return cls(SimulatorModel.model_validate(payload.document), payload.scenario, payload.clock)

    def begin(self, seed: int, start: JsonObject) -> State:
        """The declared state, as `start` varies it, with what the seed draws."""
        given = dict(start)
        at, forced = given.pop(AT, self._model.initial), given.pop(COUNTERPART, None)
        known = self._model.states
        if not isinstance(at, str) or at not in known or known[at].terminal:
            reason = f"{at!r} ends the episode" if at in known else unknown(str(at), known, "state")
            raise TemplateError(f"start.{AT}: {reason}")
        try:
            drawn = draw_all(self._model.draws, f"{self._scenario}/draws/{seed}", "draws")
        except UsageError as error:
            raise TemplateError(str(error).replace("draws.variables.", "draws.")) from error  # tasks call them so
        own: JsonObject = {"at": at, "entered": 0, "draws": drawn, "fired": {}, "last": {}}
        if self._counterpart is not None:
            own["counterpart"] = self._counterpart.begin(f"{self._scenario}/counterpart/{seed}", forced)
        elif forced is not None:
            raise TemplateError(f"start.{COUNTERPART}: there is nobody to speak with here")
        return begun(varied(dict(self._model.state), given), self.tools, **own)

    def act(self, state: State, call: Call) -> Turn:
        """What the timers that are due change, then what the call does."""
        moment = _Moment(state, call)
        for timer in self._timers:
            self._fire(timer, moment)
        if self._ended(moment.state):
            last = self._last_words(moment)
            status = ToolStatus.OK if call.name == RESPOND else ToolStatus.TOOL_ERROR
            return Turn(kept(state, moment.state.having(done=True)), status, last)
        if call.name == RESPOND and self._counterpart is not None:
            status, text = ToolStatus.OK, self._respond(self._counterpart, moment)
        else:
            status, text = self._transit(moment)
        after = moment.state
        if call.name in self._awaited and status is ToolStatus.OK:
            after = after.having(last={**after.own["last"], call.name: call.seconds})
        if self._ended(after):
            after = after.having(done=True)
        return Turn(kept(state, after), status, "\n".join([*moment.notes, text]))

    def _fire(self, timer: "_Timer", moment: "_Moment") -> None:
        state, own = moment.state, moment.state.own
        since = own["entered"] if timer.call is None else own["last"].get(timer.call)
        if since is None or self._ended(state) or not timer.move.possible(own["at"]):
            return
        once = since if timer.call is not None else [own["at"], since]
        if moment.call.seconds - since < timer.after or own["fired"].get(timer.name) == once:
            return
        context = self._context(state, moment.call)
        if not timer.move.allowed(context):
            return
        fired = {**own["fired"], timer.name: once}
        moment.state = timer.move.made(state.having(fired=fired), context, moment.call.seconds)
        if timer.speech is not None:
            after = self._context(moment.state, moment.call)
            moment.notes.append(timer.speech.text(self._persona(state), after, moment.chance))

    def _transit(self, moment: "_Moment") -> tuple[ToolStatus, str]:
        state, call = moment.state, moment.call
        context = self._context(state, call) | {"arguments": call.arguments}
        at = state.own["at"]
        fits = (one for one in self._transitions[call.name] if one.move.possible(at) and one.move.allowed(context))
        transition = next(fits, None)
        if transition is None:
            answer = self._otherwise[call.name]
            return answer.status, answer.text(context)
        moment.state = transition.move.made(state, context, call.seconds)
        after = self._context(moment.state, call) | {"arguments": call.arguments}
        return transition.answer.status, transition.answer.text(after)

    def _respond(self, counterpart: Counterpart, moment: "_Moment") -> str:
        state, call = moment.state, moment.call
        spoken, message = state.own["counterpart"], call.arguments["message"]
        extra = {"arguments": call.arguments, "message": message}
        context = self._context(state, call) | extra
        said = {**spoken, "spoken": spoken["spoken"] + 1}
        speech = counterpart.opening(spoken["mood"]) if spoken["spoken"] == 0 else None
        if speech is None:
            reply = counterpart.reply(state.own["at"], spoken["mood"], message, context)
            if reply is None:
                speech = counterpart.otherwise(spoken["mood"])
            else:
                speech, state = reply.speech, reply.move.made(state, context, call.seconds)
                said |= {"hung_up": reply.hangs_up, "mood": reply.mood or spoken["mood"]}
        moment.state = state.having(counterpart=said)
        return speech.text(said["persona"], self._context(moment.state, call) | extra, moment.chance)

    def _ended(self, state: State) -> bool:
        hung_up = self._counterpart is not None and state.own["counterpart"]["hung_up"]
        return hung_up or self._model.states[state.own["at"]].terminal

    def _last_words(self, moment: "_Moment") -> str:
        told = moment.notes or [self._model.states[moment.state.own["at"]].description]
        if moment.call.name != RESPOND:
            told = [*told, f"the episode has ended; {moment.call.name} was not done"]
        return "\n".join(one for one in told if one)

    def _persona(self, state: State) -> str:
        return "" if self._counterpart is None else str(state.own["counterpart"]["persona"])

    def _context(self, state: State, call: Call) -> JsonObject:
        own = state.own
        context = {
            "state": state.facts,
            "draws": own["draws"],
            "at": own["at"],
            "in_state": call.seconds - own["entered"],
            "calls": own["calls"],
            "succeeded": own["succeeded"],
            **self._clock.at(call.seconds),
        }
        return context if self._counterpart is None else {**context, "counterpart": own["counterpart"]}


@dataclass
class _Moment:
    """A call while it is worked out."""

    state: State
    call: Call
    notes: list[str] = field(default_factory=list)
    _chance: random.Random | None = None

    def chance(self) -> random.Random:
        """What draws within this call."""
        if self._chance is None:
            self._chance = random.Random(f"{self.call.seed}/{self.call.seconds}")
        return self._chance


class _Transition:
    def __init__(self, model: TransitionModel) -> None:
        self.move = Move(model.from_, model.guard, model.to, model.effects)
        self.answer = Answer(model)


class _Timer:
    def __init__(self, model: TimerModel) -> None:
        self.name = model.name
        self.after = model.after
        self.call = model.call
        self.move = Move(model.in_, model.guard, model.to, model.effects)
        self.speech = None if model.say is None else Speech(model.say)
