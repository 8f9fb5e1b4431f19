"""A mock: for each call, the first rule that applies says what comes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from quintain.contracts.tools import Tool
from quintain.environments.inprocess.answers import Answer, refusal
from quintain.environments.inprocess.forms import Condition, Form
from quintain.environments.inprocess.kind import Payload
from quintain.environments.inprocess.machine import Call, Clock, State, Turn, begun, kept, varied
from quintain.environments.inprocess.patterns import found
from quintain.environments.inprocess.values import equal
from quintain.environments.mock.models import MatcherModel, MockModel, RuleModel, ThenModel, WhenModel

JsonObject = dict[str, Any]


class MockMachine:
    """One mock. What it keeps of an episode is its facts and how often each tool was called."""

    def __init__(self, model: MockModel, clock: Clock) -> None:
        """Raises ExpressionError where an expression is none."""
        self.tools: Sequence[Tool] = tuple(tool.tool for tool in model.tools)
        self._facts = dict(model.state)
        self._clock = clock
        self._rules: dict[str, list[_Rule]] = {tool.name: [] for tool in self.tools}
        for rule in model.rules:
            self._rules[rule.tool].append(_Rule(rule))
        self._otherwise = {tool.name: _Then(tool.otherwise or _none(tool.name)) for tool in model.tools}

    @classmethod
    def of(cls, payload: Payload) -> "MockMachine":
        """The mock of a payload, of which `check` told nothing fatal."""
        return cls(MockModel.model_validate(payload.document), payload.clock)

    def begin(self, seed: int, start: JsonObject) -> State:
        """The declared facts, as `start` varies them."""
        return begun(varied(self._facts, start), self.tools)

    def act(self, state: State, call: Call) -> Turn:
        """What the first rule says that applies, or the tool's `otherwise`."""
        context = self._context(state, call)
        rule = next((one for one in self._rules[call.name] if one.applies(state, call, context)), None)
        then = self._otherwise[call.name] if rule is None else rule.then
        changes = {name: form.value(context) for name, form in then.changes.items()}
        after = kept(state, state.having(changes, done=then.done)) if changes or then.done else state
        text = then.answer.text({**context, "state": after.facts})
        return Turn(after, then.answer.status, text, then.latency_ms)

    def _context(self, state: State, call: Call) -> JsonObject:
        own = state.own
        return {
            "arguments": call.arguments,
            "state": state.facts,
            "calls": own["calls"],
            "succeeded": own["succeeded"],
            **self._clock.at(call.seconds),
        }


class _Then:
    def __init__(self, model: ThenModel) -> None:
        self.answer = Answer(model)
        self.changes = {name: Form(value) for name, value in model.set.items()}
        self.latency_ms = model.latency.ms
        self.done = model.done


class _Rule:
    def __init__(self, model: RuleModel) -> None:
        self.then = _Then(model.then)
        self._when: WhenModel = model.when
        self._matchers = [(name, _Match(one)) for name, one in model.when.arguments.items()]
        self._where = Condition(model.when.where)

    def applies(self, state: State, call: Call, context: Mapping[str, Any]) -> bool:
        calls, succeeded = state.own["calls"][call.name], state.own["succeeded"]
        counts = self._when.calls
        return (
            (counts is None or counts.at_least <= calls <= counts.highest)
            and all(succeeded[name] for name in self._when.after)
            and all(_matched(name, one, call.arguments, context) for name, one in self._matchers)
            and self._where.holds(context)
        )


def _none(tool: str) -> ThenModel:
    return ThenModel(error=refusal(f"{tool} has no answer to that; try other arguments").error)


def _matched(name: str, one: "_Match", arguments: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    if name not in arguments:
        return one.absent
    return one.matches(arguments[name], context)


class _Match:
    """What is asked of one argument, compiled."""

    def __init__(self, model: MatcherModel) -> None:
        asked = model.model_fields_set
        self.absent = bool(model.absent)
        self._equals = Form(model.equals) if "equals" in asked else None
        self._one_of = None if model.one_of is None else Form(model.one_of)
        self._pattern = model.matches
        self._low, self._high = model.at_least, model.at_most

    def matches(self, value: Any, context: Mapping[str, Any]) -> bool:
        """Whether a value that is there is as asked."""
        if self.absent:
            return False
        if self._equals is not None and not equal(value, self._equals.value(context)):
            return False
        if self._one_of is not None and not any(equal(value, one) for one in self._one_of.value(context)):
            return False
        if self._pattern is not None and not (isinstance(value, str) and found(self._pattern, value)):
            return False
        return self._within(value)

    def _within(self, value: Any) -> bool:
        if self._low is None and self._high is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self._low is None or self._low <= value) and (self._high is None or value <= self._high)
