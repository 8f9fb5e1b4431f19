"""A simulator's states as a graph: which are reached, which cannot be left, which transitions never fire."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from quintain.environments.inprocess.findings import Finding, Place
from quintain.environments.simulator.models import ReplyModel, SimulatorModel


class Edge(NamedTuple):
    """A way from some states to another."""

    sources: frozenset[str]
    to: str


def replies_of(model: SimulatorModel) -> Iterator[tuple[Place, str | None, ReplyModel]]:
    """Every reply with its place, and the mood that has it for its own."""
    if model.counterpart is None:
        return
    for name, mood in model.counterpart.moods.items():
        for index, reply in enumerate(mood.replies):
            yield ("counterpart", "moods", name, "replies", index), name, reply
    for index, reply in enumerate(model.counterpart.replies):
        yield ("counterpart", "replies", index), None, reply


def graph_findings(model: SimulatorModel) -> Iterator[Finding]:
    """What the graph is told by: states that are not reached or not left, timers that never run."""
    live = frozenset(name for name, state in model.states.items() if not state.terminal)
    edges = [
        Edge(live if states is None else live.intersection(states), to)
        for states, to in [
            *((one.from_, one.to) for one in model.transitions),
            *((one.in_, one.to) for one in model.timers),
            *((one.from_, one.to) for _, _, one in replies_of(model)),
        ]
        if to is not None
    ]
    reached = _reached(model.initial, edges)
    for name in model.states:
        if name not in reached:
            message = "no way leads here from the initial state; only a task that starts here sees it"
            yield Finding(("states", name), message, fatal=False)
    hung_up = [live if one.from_ is None else frozenset(one.from_) for _, _, one in replies_of(model) if one.hangs_up]
    for name in sorted(live):
        left = any(name in edge.sources and edge.to != name for edge in edges)
        if not left and not any(name in states for states in hung_up):
            message = "no way leads out of this state and it is not terminal; say terminal: true, or give it a way out"
            yield Finding(("states", name), message, fatal=False)
    for index, timer in enumerate(model.timers):
        if timer.in_ is not None and not reached.intersection(timer.in_):
            yield Finding(("timers", index), "none of its states is reached; it never runs", fatal=False)


def shadow_findings(model: SimulatorModel) -> Iterator[Finding]:
    """Transitions and replies that never count, because others before them always do."""
    live = frozenset(name for name, state in model.states.items() if not state.terminal)
    for tool in dict.fromkeys(one.tool for one in model.transitions):
        rules = [
            _Rule(("transitions", index), _places(live, one.from_), one.guard)
            for index, one in enumerate(model.transitions)
            if one.tool == tool
        ]
        yield from _shadowed(rules, "transition")
    if model.counterpart is None:
        return
    moods = frozenset(model.counterpart.moods)
    replies = []
    for place, own, one in replies_of(model):
        told = frozenset([own]) if own is not None else moods if one.moods is None else moods.intersection(one.moods)
        where = frozenset((state, mood) for state in _places(live, one.from_) for mood in told)
        condition = None if one.guard is None and one.matches is None else (one.guard, one.matches)
        replies.append(_Rule(place, where, condition))
    yield from _shadowed(replies, "reply")


class _Rule(NamedTuple):
    place: Place
    where: frozenset[Any]
    condition: Any
    """None where it holds always."""


def _shadowed(rules: Sequence[_Rule], what: str) -> Iterator[Finding]:
    taken: set[Any] = set()
    by_condition: dict[Any, set[Any]] = {}
    for rule in rules:
        before = by_condition.setdefault(rule.condition, set())
        if rule.where and rule.where <= taken | before:
            yield Finding(rule.place, f"never counts: a {what} before it always does where it could; move or remove it")
        before |= rule.where
        if rule.condition is None:
            taken |= rule.where


def _places(live: frozenset[str], states: Iterable[str] | None) -> frozenset[str]:
    return live if states is None else live.intersection(states)


def _reached(initial: str, edges: Sequence[Edge]) -> frozenset[str]:
    reached, grown = {initial}, True
    while grown:
        new = {edge.to for edge in edges if edge.to not in reached and not reached.isdisjoint(edge.sources)}
        reached |= new
        grown = bool(new)
    return frozenset(reached)
