"""What is wrong with a simulator's document, each thing with its place."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from quintain.environments.inprocess.answers import answer_findings, change_findings
from quintain.environments.inprocess.documents import document_problem
from quintain.environments.inprocess.findings import MAX_FINDINGS, Finding, Place, misfits, unknown
from quintain.environments.inprocess.forms import Scope, condition_findings, form_findings
from quintain.environments.inprocess.patterns import pattern_problem
from quintain.environments.inprocess.schemas import tool_findings
from quintain.environments.simulator.counterpart import DEFAULT, respond_tool
from quintain.environments.simulator.graph import graph_findings, replies_of, shadow_findings
from quintain.environments.simulator.models import AT, COUNTERPART, RESPOND, CounterpartModel, SimulatorModel

JsonObject = dict[str, Any]

_OF_COUNTERPART = frozenset({"persona", "mood", "spoken", "hung_up"})


def check(document: JsonObject) -> list[Finding]:
    """Everything wrong with a simulator's document: `environment.yaml`, with or without its title and description."""
    if problem := document_problem(document):
        return [Finding((), problem)]
    try:
        model = SimulatorModel.model_validate(document)
    except ValidationError as error:
        return misfits(error)[:MAX_FINDINGS]
    found = [*tool_findings(model.tools), *_names(model)]
    if not found:
        checks = _Checks(model)
        found = [*checks.all(), *graph_findings(model), *shadow_findings(model)]
    return found[:MAX_FINDINGS]


def _names(model: SimulatorModel) -> Iterator[Finding]:
    """Names that are needed or taken."""
    if not model.tools and model.counterpart is None:
        yield Finding(("tools",), "there is nothing to call; declare tools, or a counterpart")
    for index, tool in enumerate(model.tools):
        if tool.name == RESPOND and model.counterpart is not None:
            yield Finding(("tools", index), f"{RESPOND} is the tool that the counterpart brings; remove it")
    for name in (AT, COUNTERPART):
        if name in model.state:
            yield Finding(("state", name), f"{name} means something else in a task's start; take another name")
    if "any" in model.states:
        yield Finding(("states", "any"), "any means every state; take another name")
    seen: set[str] = set()
    for index, timer in enumerate(model.timers):
        if timer.name in seen:
            yield Finding(("timers", index, "name"), f"a second timer is called {timer.name!r}; take another name")
        seen.add(timer.name)


class _Checks:
    def __init__(self, model: SimulatorModel) -> None:
        self._model = model
        self._tools = {tool.name: tool.tool for tool in model.tools}
        names = frozenset(self._tools) | ({RESPOND} if model.counterpart is not None else frozenset())
        known: dict[str, frozenset[str] | None] = {
            "state": frozenset(model.state),
            "draws": frozenset(model.draws),
            "calls": names,
            "succeeded": names,
        }
        if model.counterpart is not None:
            known["counterpart"] = _OF_COUNTERPART
        self._scope = Scope(known).with_names("at", "in_state", "now", "elapsed")
        self._called = names

    def all(self) -> Iterator[Finding]:
        """Whatever is wrong with names and expressions."""
        model = self._model
        yield from self._state(model.initial, ("initial",))
        yield from self._draws()
        yield from self._transitions()
        for index, timer in enumerate(model.timers):
            at: Place = ("timers", index)
            yield from self._move(at, timer.in_, "in", timer.guard, timer.to, timer.effects, self._scope)
            if timer.call is not None and timer.call not in self._called:
                yield Finding((*at, "call"), f"{unknown(timer.call, self._called, 'tool')}; correct it")
            if timer.say is not None:
                yield from self._said(timer.say, (*at, "say"), self._scope)
        if model.counterpart is not None:
            yield from self._counterpart(model.counterpart)

    def _draws(self) -> Iterator[Finding]:
        earlier: list[str] = []
        for name, draw in self._model.draws.items():
            scope = Scope(dict.fromkeys(earlier))
            yield from form_findings(draw.model_dump(exclude_unset=True), ("draws", name), scope)
            earlier.append(name)

    def _transitions(self) -> Iterator[Finding]:
        model = self._model
        for index, tool in enumerate(model.tools):
            if tool.otherwise is not None:
                scope = self._scope.with_arguments(self._tools[tool.name])
                yield from answer_findings(tool.otherwise, ("tools", index, "otherwise"), scope)
            elif not any(one.tool == tool.name for one in model.transitions):
                message = "no transition is for this tool and it has no otherwise: every call of it is refused"
                yield Finding(("tools", index), message)
        for index, one in enumerate(model.transitions):
            at: Place = ("transitions", index)
            if one.tool not in self._tools:
                hint = " a reply of the counterpart" if one.tool == RESPOND and model.counterpart else " it under tools"
                yield Finding((*at, "tool"), f"{unknown(one.tool, self._tools, 'tool')}; write{hint}")
                continue
            scope = self._scope.with_arguments(self._tools[one.tool])
            yield from self._move(at, one.from_, "from", one.guard, one.to, one.effects, scope)
            yield from answer_findings(one, at, scope)

    def _counterpart(self, model: CounterpartModel) -> Iterator[Finding]:
        at: Place = ("counterpart",)
        scope = self._scope.with_arguments(respond_tool(model)).with_names("message")
        for what, ways in (("personas", model.personas), ("moods", model.moods)):
            if ways and not any(one.weight for one in ways.values()):
                yield Finding((*at, what), "none has a weight above 0; none could be drawn")
        for said, place in [
            (model.opening, (*at, "opening")),
            (model.otherwise, (*at, "otherwise")),
            *(
                (said, (*at, "moods", name, key))
                for name, mood in model.moods.items()
                for key, said in (("opening", mood.opening), ("otherwise", mood.otherwise))
            ),
        ]:
            if said is not None:
                yield from self._said(said, place, scope)
        for place, own, reply in replies_of(self._model):
            yield from self._move(place, reply.from_, "from", reply.guard, reply.to, reply.effects, scope)
            yield from self._said(reply.say, (*place, "say"), scope)
            if reply.matches is not None and (problem := pattern_problem(reply.matches)):
                yield Finding((*place, "matches"), problem)
            if own is not None and reply.moods is not None:
                yield Finding((*place, "moods"), f"this reply is of the mood {own} alone; remove moods")
            for mood in {*(reply.moods or []), *([reply.mood] if reply.mood is not None else [])} - model.moods.keys():
                yield Finding(place, f"{unknown(mood, model.moods, 'mood')}; correct it")

    def _move(
        self,
        at: Place,
        states: Sequence[str] | None,
        key: str,
        guard: str | None,
        to: str | None,
        effects: Mapping[str, Any],
        scope: Scope,
    ) -> Iterator[Finding]:
        if states == []:
            yield Finding((*at, key), "names no state; name some, or write any")
        for index, name in enumerate(states or []):
            yield from self._state(name, (*at, key, index))
        if to is not None:
            yield from self._state(to, (*at, "to"), terminal=True)
        yield from condition_findings(guard, (*at, "guard"), scope)
        yield from change_findings(effects, (*at, "effects"), scope, self._model.state)

    def _state(self, name: str, at: Place, *, terminal: bool = False) -> Iterator[Finding]:
        known = self._model.states
        if name not in known:
            yield Finding(at, f"{unknown(name, known, 'state')}; correct it")
        elif known[name].terminal and not terminal:
            yield Finding(at, f"{name} is terminal: the episode ends there and nothing more happens; take it out")

    def _said(self, said: Any, at: Place, scope: Scope) -> Iterator[Finding]:
        yield from form_findings(said, at, scope)
        if not isinstance(said, dict):
            return
        personas = frozenset() if self._model.counterpart is None else frozenset(self._model.counterpart.personas)
        for name in sorted(said.keys() - personas - {DEFAULT}):
            yield Finding((*at, name), f"{unknown(name, personas, 'persona')}; correct it")
        missing = sorted((personas or {"anybody"}) - said.keys())
        if DEFAULT not in said and missing:
            yield Finding(at, f"says nothing for {missing[0]}; add it, or {DEFAULT}")
