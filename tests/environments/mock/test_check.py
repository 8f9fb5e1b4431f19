"""What is told of a mock's document that is wrong."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from quintain.environments.inprocess.patterns import found, pattern_problem
from quintain.environments.inprocess.schemas import ArgumentCheck, ToolModel
from quintain.environments.mock import check

Document = dict[str, Any]
Change = Callable[[Document], Any]

SOUND: Document = {
    "kind": "mock",
    "title": "Told by the pack",
    "state": {"seen": 0},
    "tools": [
        {
            "name": "look",
            "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "otherwise": "not here",
        }
    ],
    "rules": [
        {"tool": "look", "when": {"arguments": {"id": "a"}, "calls": 0}, "then": {"result": 1}},
        {
            "tool": "look",
            "when": {"arguments": {"id": "a"}},
            "then": {"result": 2, "set": {"seen": "${state.seen + 1}"}},
        },
    ],
}


def rule(index: int, **changes: Any) -> Change:
    return lambda document: document["rules"][index].update(changes)


def schema(**changes: Any) -> Change:
    return lambda document: document["tools"][0]["input_schema"].update(changes)


def then(**changes: Any) -> Change:
    return lambda document: document["rules"][1]["then"].update(changes)


def when(**changes: Any) -> Change:
    return lambda document: document["rules"][1]["when"].update(changes)


def properties(**changes: Any) -> Change:
    return lambda document: document["tools"][0]["input_schema"]["properties"].update(changes)


def also(**changes: Any) -> Change:
    return lambda document: document.update(changes)


WRONG: dict[str, tuple[Change, str, str]] = {
    "unknown field": (also(rule=[]), "rule", "is no field here"),
    "another kind": (also(kind="simulator"), "kind", "input should be 'mock'"),
    "no tools": (also(tools=[]), "tools", "at least 1"),
    "a fact's name": (also(state={"_episode": 1}), "state._episode", "should match pattern"),
    "tool twice": (lambda d: d["tools"].append(d["tools"][0]), "tools[1].name", "a second tool"),
    "reserved": (lambda d: d["tools"].append({"name": "verify"}), "tools[1].name", "platform's own"),
    "unknown tool": (rule(0, tool="lok"), "rules[0].tool", "no tool is called 'lok'; there are: look"),
    "tool of after": (when(after=["see"]), "rules[1].when.after[0]", "no tool is called 'see'"),
    "unknown argument": (when(arguments={"ident": 1}), "rules[1].when.arguments.ident", "no argument of look"),
    "matcher": (when(arguments={"id": {"like": 1}}), "rules[1].when.arguments.id", "write a map to compare with"),
    "empty matcher": (when(arguments={"id": {}}), "rules[1].when.arguments.id", "asks nothing"),
    "absent and more": (
        when(arguments={"id": {"absent": True, "equals": 1}}), "rules[1].when.arguments.id", "ask nothing else",
    ),
    "count": (when(calls={"at_least": 3, "at_most": 2}), "rules[1].when.calls", "exchange at_least"),
    "regex": (
        when(arguments={"id": {"matches": "("}}), "rules[1].when.arguments.id.matches", "not a regular expression",
    ),
    "look-around": (when(arguments={"id": {"matches": "(?=a)"}}), "rules[1].when.arguments.id.matches", "look-around"),
    "long regex": (when(arguments={"id": {"matches": "a" * 301}}), "rules[1].when.arguments.id.matches", "over 300"),
    "heavy regex": (
        when(arguments={"id": {"matches": "(a{100}){100}"}}), "rules[1].when.arguments.id.matches", "10000 repetitions",
    ),
    "wide regex": (
        when(arguments={"id": {"matches": r"\w{100}"}}), "rules[1].when.arguments.id.matches", "more than 20 times",
    ),
    "condition": (when(where="state.seen >"), "rules[1].when.where", "not an expression"),
    "variable": (when(where="stat.seen > 1"), "rules[1].when.where", "no variable is called 'stat'"),
    "fact": (when(where="state.sen > 1"), "rules[1].when.where", "no key of state is called 'sen'; there are: seen"),
    "argument asked for": (then(result="${arguments.idd}"), "rules[1].then.result", "no key of arguments is called"),
    "unclosed": (then(result={"a": ["${state.seen"]}), "rules[1].then.result.a[0]", "is not closed"),
    "fact set": (then(set={"sen": 1}), "rules[1].then.set.sen", "no fact of the state is called 'sen'"),
    "both": (then(error={"message": "no"}), "rules[1].then", "exactly one of result and error"),
    "neither": (rule(1, then={"done": True}), "rules[1].then", "exactly one of result and error"),
    "status": (
        rule(1, then={"error": {"status": "ok", "message": "x"}}), "rules[1].then.error.status", "'tool_error'",
    ),
    "latency": (then(latency={"ms": 60_001}), "rules[1].then.latency.ms", "less than or equal to 60000"),
    "shadowed": (rule(0, when={}), "rules[1]", "never applies: rules[0]"),
    "shadowed twin": (rule(1, when={"arguments": {"id": "a"}, "calls": 0}), "rules[1]", "never applies"),
    "shadowed range": (
        lambda d: [rule(0, when={"calls": {"at_most": 4}})(d), rule(1, when={"calls": 3})(d)],
        "rules[1]", "never applies",
    ),
    "schema's type": (schema(type="array"), "tools[0].input_schema", "arguments are an object"),
    "schema": (properties(id={"type": "text"}), "tools[0].input_schema.properties.id.type", "no JSON Schema"),
    "reference": (properties(id={"$ref": "http://a.com"}), "tools[0].input_schema.properties.id.$ref", "write it"),
    "schema's regex": (properties(id={"pattern": "("}), "tools[0].input_schema.properties.id.pattern", "not a regular"),
    "key": (also(state={1: 2}), "", "the key '1' is no text"),
    "size": (also(description="x" * 20_001), "description", "at most 20000"),
    "depth": (then(result=eval("[" * 30 + "]" * 30)), "", "nested deeper"),
}  # fmt: skip


def test_a_sound_document() -> None:
    assert check(SOUND) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_with_its_place(name: str) -> None:
    change, place, words = WRONG[name]
    document = copy.deepcopy(SOUND)
    change(document)
    fatal = [one for one in check(document) if one.fatal]
    assert len(fatal) == 1, fatal
    assert str(fatal[0]).startswith(f"{place}: " if place else words), fatal
    assert words in fatal[0].message


def test_what_is_only_odd_does_not_keep_it_from_being_played() -> None:
    document = copy.deepcopy(SOUND)
    document["tools"].append({"name": "wait"})
    document["tools"][0]["input_schema"]["properties"]["deep"] = {"type": "boolean"}
    document["rules"][1]["when"]["where"] = "arguments.deep"
    document["rules"].append({"tool": "look", "when": {"where": "has(arguments.deep)"}, "then": {"result": 0}})
    assert [(one.path, one.fatal) for one in check(document)] == [
        (("rules", 1, "when", "where"), False),
        (("tools", 1), False),
    ]


@pytest.mark.parametrize(
    "where",
    [
        "state.size() == 1",
        "'state.sen' == arguments.id",
        "has(state.seen)",
        "[1].all(x, x > state.seen)",
        "calls.look > 0",
    ],
)
def test_what_may_be_asked_for(where: str) -> None:
    document = copy.deepcopy(SOUND)
    document["rules"][1]["when"]["where"] = where
    assert check(document) == []


def test_rules_that_can_apply_are_not_told_to_be_shadowed() -> None:
    document = copy.deepcopy(SOUND)
    document["rules"] = [
        {"tool": "look", "when": {"where": "state.seen == 1"}, "then": {"result": 1}},
        {"tool": "look", "when": {"calls": {"at_most": 2}}, "then": {"result": 1}},
        {"tool": "look", "when": {"calls": {"at_least": 2}}, "then": {"result": 1}},
        {"tool": "look", "when": {"arguments": {"id": {"at_least": 2}}}, "then": {"result": 1}},
        {"tool": "look", "when": {"after": ["look"]}, "then": {"result": 1}},
        {"tool": "look", "then": {"result": 1}},
    ]
    assert check(document) == []


@pytest.mark.parametrize(
    "document", [None, [], "x", {}, {"tools": 3}, {"tools": [3], "rules": {}}, {"state": float("nan")}]
)
def test_what_is_no_document_is_told(document: Any) -> None:
    assert any(one.fatal for one in check(document))


def test_a_pattern_is_found_anywhere_in_time_that_grows_with_the_text_alone() -> None:
    assert found("b+", "abba")
    assert not found("^b", "ab")
    assert pattern_problem("(a|aa)+$") is None
    assert not found("(a|aa)+$", "a" * 50_000 + "!")  # a backtracking matcher would not come back


def test_arguments_are_checked_against_nested_schemas() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    tool = ToolModel(
        name="t", input_schema={"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    )
    check_of = ArgumentCheck(tool.tool)
    assert check_of.problem({"items": [{"n": 1}]}) is None
    assert check_of.problem({"items": [{"n": 1}, {"n": 0}]}) == "items.1.n: 0 is less than the minimum of 1"
    assert check_of.typed({"items": [{"n": 1.0}]}) == {"items": [{"n": 1}]}
