"""What is wrong with a mock's document, each thing with its place."""

from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

from quintain.contracts.tools import Tool
from quintain.environments.inprocess.answers import answer_findings, change_findings
from quintain.environments.inprocess.documents import document_problem
from quintain.environments.inprocess.findings import MAX_FINDINGS, Finding, Place, misfits, unknown
from quintain.environments.inprocess.forms import Scope, condition_findings, declared_arguments, form_findings
from quintain.environments.inprocess.patterns import pattern_problem
from quintain.environments.inprocess.schemas import tool_findings
from quintain.environments.mock.models import MatcherModel, MockModel, RuleModel, ThenModel, WhenModel

JsonObject = dict[str, Any]

VARIABLES: Final = ("arguments", "state", "calls", "succeeded", "now", "elapsed")
"""What expressions may ask for."""


def check(document: JsonObject) -> list[Finding]:
    """Everything wrong with a mock's document: `environment.yaml`, with or without its title and description."""
    if problem := document_problem(document):
        return [Finding((), problem)]
    try:
        model = MockModel.model_validate(document)
    except ValidationError as error:
        return misfits(error)[:MAX_FINDINGS]
    found = list(tool_findings(model.tools))
    return (found or list(_findings(model)))[:MAX_FINDINGS]


def _findings(model: MockModel) -> Iterator[Finding]:
    tools = {one.name: one.tool for one in model.tools}
    scope = Scope(
        {
            "state": frozenset(model.state),
            "calls": frozenset(tools),
            "succeeded": frozenset(tools),
            "now": None,
            "elapsed": None,
        }
    )
    for index, tool in enumerate(model.tools):
        if tool.otherwise is not None:
            within = scope.with_arguments(tools[tool.name])
            yield from _then(tool.otherwise, ("tools", index, "otherwise"), within, model)
    for index, rule in enumerate(model.rules):
        at: Place = ("rules", index)
        if rule.tool not in tools:
            yield Finding((*at, "tool"), f"{unknown(rule.tool, tools, 'tool')}; declare it under tools")
            continue
        within = scope.with_arguments(tools[rule.tool])
        yield from _when(rule.when, (*at, "when"), within, tools, rule.tool)
        yield from _then(rule.then, (*at, "then"), within, model)
        yield from _shadowed(model.rules, index)
    ruled = {rule.tool for rule in model.rules}
    for index, tool in enumerate(model.tools):
        if tool.otherwise is None and tool.name not in ruled:
            message = "no rule is for this tool and it has no otherwise: every call of it is a tool_error"
            yield Finding(("tools", index), message, fatal=False)


def _when(when: WhenModel, at: Place, scope: Scope, tools: dict[str, Tool], tool: str) -> Iterator[Finding]:
    declared = declared_arguments(tools[tool])
    for name, matcher in when.arguments.items():
        place = (*at, "arguments", name)
        if declared is not None and name not in declared:
            yield Finding(place, f"{unknown(name, declared, 'argument of ' + tool)}; declare it in the input_schema")
        if matcher.matches is not None and (problem := pattern_problem(matcher.matches)):
            yield Finding((*place, "matches"), problem)
        yield from form_findings(matcher.equals, place, scope)
        yield from form_findings(matcher.one_of, (*place, "one_of"), scope)
    for index, name in enumerate(when.after):
        if name not in tools:
            yield Finding((*at, "after", index), f"{unknown(name, tools, 'tool')}; correct it")
    yield from condition_findings(when.where, (*at, "where"), scope)


def _then(then: ThenModel, at: Place, scope: Scope, model: MockModel) -> Iterator[Finding]:
    yield from answer_findings(then, at, scope)
    yield from change_findings(then.set, (*at, "set"), scope, model.state)


def _shadowed(rules: list[RuleModel], index: int) -> Iterator[Finding]:
    rule = rules[index]
    for earlier in range(index):
        if rules[earlier].tool == rule.tool and _implied(rules[earlier].when, rule.when):
            message = f"never applies: rules[{earlier}] applies whenever it would; put this one first, or remove it"
            yield Finding(("rules", index), message)
            return


def _implied(wide: WhenModel, narrow: WhenModel) -> bool:
    """Whether what is asked by `wide` surely holds where what is asked by `narrow` does."""
    counts = wide.calls is None or (
        narrow.calls is not None
        and wide.calls.at_least <= narrow.calls.at_least
        and narrow.calls.highest <= wide.calls.highest
    )
    return (
        counts
        and set(wide.after) <= set(narrow.after)
        and (wide.where is None or wide.where == narrow.where)
        and all(
            name in narrow.arguments and _covers(one, narrow.arguments[name]) for name, one in wide.arguments.items()
        )
    )


def _covers(wide: MatcherModel, narrow: MatcherModel) -> bool:
    if wide == narrow and wide.model_fields_set == narrow.model_fields_set:
        return True
    if wide.model_fields_set == {"absent"} and not wide.absent:
        return not narrow.absent  # any matcher of a value asks that there is one
    return False
