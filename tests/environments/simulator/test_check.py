"""What is told of a simulator's document that is wrong, or odd."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from quintain.environments.simulator import check

Document = dict[str, Any]
Change = Callable[[Document], Any]

SOUND: Document = {
    "kind": "simulator",
    "states": {"idle": {}, "busy": {"description": "At work."}, "over": {"terminal": True}},
    "initial": "idle",
    "state": {"n": 0},
    "draws": {"d": {"integer": [1, 3]}, "e": {"value": "${d + 1}"}},
    "tools": [
        {
            "name": "work",
            "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
        {"name": "stop", "otherwise": "There is nothing to stop."},
    ],
    "transitions": [
        {"tool": "work", "from": "idle", "guard": "arguments.n > draws.d", "to": "busy", "result": "working"},
        {"tool": "work", "from": "idle", "effects": {"n": "${state.n + arguments.n}"}, "result": "${state.n}"},
        {"tool": "stop", "from": ["busy"], "to": "over", "result": "over"},
    ],
    "timers": [{"name": "tired", "after": 5, "in": "busy", "to": "idle", "say": "I am tired."}],
    "counterpart": {
        "personas": {"shy": {}, "loud": {}},
        "moods": {"calm": {}, "angry": {"weight": 0, "replies": [{"matches": "x", "say": "No."}]}},
        "replies": [{"from": "busy", "matches": "stop", "say": {"shy": "oh", "loud": ["OH"]}, "hangs_up": True}],
    },
}


def part(*path: str | int) -> Callable[..., Change]:
    """Changes keys of what stands at a place."""

    def changing(**changes: Any) -> Change:
        def change(document: Document) -> None:
            at: Any = document
            for key in path:
                at = at[key]
            at.update({name.rstrip("_"): value for name, value in changes.items()})

        return change

    return changing


def add(key: str, value: Any) -> Change:
    return lambda document: document[key].append(value)


top, counterpart, reply = part(), part("counterpart"), part("counterpart", "replies", 0)
transition, timer, draws = part("transitions", 0), part("timers", 0), part("draws")

WRONG: dict[str, tuple[Change, str, str]] = {
    "unknown field": (top(transition=[]), "transition", "is no field here"),
    "initial": (top(initial="idel"), "initial", "no state is called 'idel'; there are: busy, idle, over"),
    "initial is terminal": (top(initial="over"), "initial", "over is terminal"),
    "a state any": (part("states")(any={}), "states.any", "any means every state"),
    "a fact at": (part("state")(at=1), "state.at", "means something else"),
    "from": (transition(from_=["idle", "bsy"]), "transitions[0].from[1]", "no state is called 'bsy'"),
    "from nowhere": (transition(from_=[]), "transitions[0].from", "names no state"),
    "from the end": (transition(from_=["idle", "over"]), "transitions[0].from[1]", "over is terminal"),
    "to": (transition(to="bsy"), "transitions[0].to", "no state is called 'bsy'"),
    "tool": (transition(tool="wrk"), "transitions[0].tool", "no tool is called 'wrk'; there are: stop, work"),
    "respond": (transition(tool="respond"), "transitions[0].tool", "write a reply of the counterpart"),
    "own respond": (add("tools", {"name": "respond"}), "tools[2]", "the counterpart brings"),
    "tool without transitions": (add("tools", {"name": "idle"}), "tools[2]", "every call of it is refused"),
    "guard": (transition(guard="arguments.n >"), "transitions[0].guard", "not an expression"),
    "variable": (transition(guard="n > 1"), "transitions[0].guard", "no variable is called 'n'"),
    "fact": (transition(guard="state.m > 1"), "transitions[0].guard", "no key of state is called 'm'"),
    "draw": (transition(guard="draws.f > 1"), "transitions[0].guard", "no key of draws is called 'f'"),
    "argument": (transition(guard="arguments.m > 1"), "transitions[0].guard", "no key of arguments"),
    "effect": (transition(effects={"m": 1}), "transitions[0].effects.m", "no fact of the state is called 'm'"),
    "answer": (transition(error={"message": "no"}), "transitions[0]", "exactly one of result and error"),
    "no arguments of a timer": (timer(guard="arguments.n > 1"), "timers[0].guard", "no variable is called 'arguments'"),
    "timer's tool": (timer(call="wrk"), "timers[0].call", "no tool is called 'wrk'; there are: respond, stop, work"),
    "timer twice": (add("timers", SOUND["timers"][0]), "timers[1].name", "a second timer"),
    "draw of a later one": (draws(d={"value": "${e}"}), "draws.d.value", "no variable is called 'e'"),
    "drawn in two ways": (draws(d={"integer": [1, 2], "choice": [1]}), "draws.d", "drawn in one way"),
    "shadowed": (
        lambda d: d["transitions"].insert(0, {"tool": "stop", "from": "any", "result": "x"}),
        "transitions[3]", "never counts: a transition before it",
    ),
    "shadowed by its guard": (
        lambda d: d["transitions"].insert(1, {**d["transitions"][0], "result": "x"}), "transitions[1]", "never counts",
    ),
    "no weight": (
        part("counterpart", "moods")(calm={"weight": 0}), "counterpart.moods", "none has a weight above 0",
    ),
    "said": (reply(say=3), "counterpart.replies[0].say", "what is said is a text"),
    "said by nobody": (
        reply(say={"shy": "a", "proud": "b", "loud": "c"}), "counterpart.replies[0].say.proud", "no persona",
    ),
    "not said by all": (reply(say={"shy": "oh"}), "counterpart.replies[0].say", "says nothing for loud"),
    "said of nothing": (counterpart(otherwise="${state.m}"), "counterpart.otherwise", "no key of state"),
    "mood": (reply(mood="mad"), "counterpart.replies[0]", "no mood is called 'mad'"),
    "moods": (reply(moods=["mad"]), "counterpart.replies[0]", "no mood is called 'mad'"),
    "moods of a mood": (
        part("counterpart", "moods", "angry", "replies", 0)(moods=["calm"]),
        "counterpart.moods.angry.replies[0].moods", "of the mood angry alone",
    ),
    "regex": (reply(matches="["), "counterpart.replies[0].matches", "not a regular expression"),
    "reply shadowed": (
        lambda d: d["counterpart"]["replies"].insert(0, {"say": "x"}),
        "counterpart.replies[1]", "never counts: a reply",
    ),
    "nothing to call": (top(tools=[], transitions=[], counterpart=None), "tools", "nothing to call"),
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
    assert str(fatal[0]).startswith(f"{place}: "), fatal
    assert words in fatal[0].message


ODD: dict[str, tuple[Change, list[str]]] = {
    "a state that is not reached": (
        lambda d: [
            d["states"].update(lone={}),
            d["transitions"].append({"tool": "stop", "from": "lone", "to": "over", "result": 1}),
        ],
        ["states.lone: no way leads here"],
    ),
    "a dead end": (
        lambda d: [d["transitions"][0].update(to="pit"), d["states"].update(pit={})],
        ["states.busy: no way leads here", "states.over: no way leads here", "states.pit: no way leads out",
         "timers[0]: none of its states is reached"],
    ),
    "an argument that may be absent": (
        lambda d: d["tools"][0]["input_schema"].pop("required"),
        ["transitions[0].guard: argument 'n' is optional", "transitions[1].effects.n: argument 'n' is optional"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_is_only_odd_is_told_and_not_fatal(name: str) -> None:
    change, told = ODD[name]
    document = copy.deepcopy(SOUND)
    change(document)
    found = check(document)
    assert not any(one.fatal for one in found), found
    assert len(found) == len(told), found
    assert all(str(one).startswith(words) for one, words in zip(found, told, strict=True)), found


def test_a_state_that_a_counterpart_leaves_by_hanging_up_is_no_dead_end() -> None:
    document = copy.deepcopy(SOUND)
    document["transitions"].pop()
    document["timers"] = []
    assert [str(one).partition(": ")[0] for one in check(document)] == ["states.over"]


@pytest.mark.parametrize("document", [None, [], {}, {"states": []}, {"states": {"a": None}, "initial": 3}])
def test_what_is_no_document_is_told(document: Any) -> None:
    assert any(one.fatal for one in check(document))
