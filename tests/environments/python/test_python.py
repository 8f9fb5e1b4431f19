"""Python environments as an agent meets them, in real sandboxes."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from environments.python.conftest import CLASS, Make, payload
from environments.python.packs import DESK
from quintain.environments.base import ToolStatus
from quintain.environments.python import PythonKind
from quintain.errors import Owner, TemplateError
from quintain.sandboxes.fork import ForkProvider

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("python-kind")]

START = {"parcels": {"A": {"weight": 2, "speed": "fast"}}}
RULES: dict[str, Any] = {"entry": "app:Desk", "construct": {"town": "Ulm"}, "errors": ["DeskError"]}


async def test_methods_are_tools_and_attributes_the_state(playing: Make) -> None:
    async with playing(DESK, START, **RULES) as desk:
        add, names, speed, close = desk.environment.tools
        assert [one.name for one in (add, names, speed, close)] == ["add", "names", "speed", "close"]
        assert add.description == "Take a parcel in."
        assert add.input_schema["required"] == ["name", "parcel"]
        assert add.input_schema["properties"]["name"]["description"] == "under which it is kept, in capitals"
        assert add.input_schema["properties"]["parcel"]["properties"]["speed"]["enum"] == ["slow", "fast"]
        assert await desk.text("add", name="B", parcel={"weight": 1}) == "2"
        assert await desk.text("names", order="down") == '["B","A"]'
        assert await desk.text("speed", name="B") == "slow"
        state = await desk.state()
        assert state["parcels"]["B"] == {"_type": "Parcel", "weight": 1.0, "speed": "slow", "notes": []}
        assert set(state) == {"town", "parcels", "done"}
        (initial,) = desk.environment.initial
        assert list(json.loads(initial.path.read_bytes())["parcels"]) == ["A"]
        assert not desk.environment.done
        assert await desk.text("close") == "closed"
        assert desk.environment.done
        after = await desk.call("names")
        assert (after.status, after.owner, "has ended" in (after.error or "")) == ("tool_error", Owner.AGENT, True)


async def test_what_goes_wrong_is_told_by_its_cause(playing: Make) -> None:
    async with playing(DESK, START, **RULES) as desk:
        before = await desk.file()
        for name, arguments, status, owner, words in [
            ("fly", {}, ToolStatus.TOOL_NOT_FOUND, Owner.AGENT, "no tool is called 'fly'"),
            ("_drawer", {}, ToolStatus.TOOL_NOT_FOUND, Owner.AGENT, "no tool"),
            ("names", {"order": "sideways"}, ToolStatus.INVALID_ARGS, Owner.AGENT, "order"),
            ("names", {"self": 1}, ToolStatus.INVALID_ARGS, Owner.AGENT, "self"),
            ("add", {"name": "B"}, ToolStatus.INVALID_ARGS, Owner.AGENT, "parcel"),
            ("add", {"name": "A", "parcel": {"weight": 1}}, ToolStatus.TOOL_ERROR, Owner.AGENT, "A is here already"),
            ("speed", {"name": "Z"}, ToolStatus.SERVER_ERROR, Owner.ENVIRONMENT, "KeyError"),
        ]:
            outcome = await desk.call(name, **arguments)
            assert (outcome.status, outcome.owner) == (status, owner)
            assert words in (outcome.error or "")
        assert "app.py" in outcome.log
        assert await desk.file() == before


async def test_what_a_task_starts_with_must_fit(playing: Make) -> None:
    for start, words in [
        ({"parcels": {"A": {"weight": "much"}}}, r"parcels.*weight.*number|parcels.*any of"),
        ({"parcel": {}}, r"no attribute 'parcel'; there are done, parcels, town"),
        ({"_drawer": []}, "no attribute '_drawer'"),
    ]:
        with pytest.raises(TemplateError, match=words):
            async with playing(DESK, start, **RULES):
                pass


CHANCE = """
import os, random, time, uuid
from datetime import datetime

class Dice:
    def __init__(self):
        self.first = random.random()
        self.seen = []
        self.words = {"b", "a", "c"}

    def roll(self, n: int = 6) -> int:
        self.seen.append(random.randint(1, n))
        return self.seen[-1]

    def tell(self) -> list:
        return [datetime.now().isoformat(), time.time(), uuid.uuid4().hex, os.urandom(4), random.Random().random()]
"""
ACTIONS = st.lists(
    st.sampled_from([("roll", {}), ("roll", {"n": 1000}), ("roll", {"n": "x"}), ("tell", {}), ("none", {})]), max_size=5
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, seed=st.integers(0, 2**53 - 1))
async def test_the_same_seed_and_calls_give_the_same_observations_and_bytes(
    playing: Make, actions: list[tuple[str, dict[str, Any]]], seed: int
) -> None:
    async def once() -> Any:
        async with playing(CHANCE, seed=seed, entry="app:Dice") as dice:
            told = [
                (await dice.call(name, **arguments)).model_dump(exclude={"duration_ms"}) for name, arguments in actions
            ]
            return told, await dice.file()

    first, second = await asyncio.gather(once(), once())
    assert first == second


async def test_the_clock_moves_a_second_with_each_call_and_seeds_differ(playing: Make) -> None:
    async with playing(CHANCE, seed=1, entry="app:Dice") as one, playing(CHANCE, seed=2, entry="app:Dice") as other:
        for second in (1, 2):
            told, others = json.loads(await one.text("tell")), json.loads(await other.text("tell"))
            assert told[0] == f"2026-02-10T00:00:0{second}"
            assert told[2:] != others[2:]
        assert (await one.state())["first"] != (await other.state())["first"]


HOSTILE = """
import json, os, sys, threading, time

class Bad:
    def __init__(self):
        self.n = 0

    def count(self) -> int:
        self.n += 1
        return self.n

    def leave(self) -> None:
        self.n = 99
        os._exit(0)

    def spin(self) -> None:
        while True:
            pass

    def fork(self) -> int:
        return os.fork()

    def shout(self) -> str:
        return "x" * 11_000_000

    def grow(self) -> None:
        self.n = "x" * 3_000_000

    def quit(self) -> None:
        sys.exit(3)

    def forge(self) -> str:
        with open("state.json", "w") as file:
            file.write('{"n":1000}')
        return "forged"

    def patch(self) -> int:
        json.dumps = lambda *a, **k: "{}"
        json.encoder.JSONEncoder.iterencode = lambda *a, **k: iter(["no json"])
        json.encoder.c_make_encoder = None
        self.n += 1
        return self.n

    def reach(self) -> None:
        frame = sys._getframe()
        while frame:
            one = frame.f_locals.get("self")
            if type(one).__name__ == "Kind":
                one._state = lambda: "{ no JSON"
            frame = frame.f_back
"""


@pytest.mark.parametrize(
    ("tool", "status", "words"),
    [
        ("leave", "server_error", "ended without answering"),
        ("spin", "timeout", "did not answer"),
        ("shout", "tool_error", "10 MiB"),
        ("quit", "server_error", "SystemExit"),
        ("grow", "server_error", "the state has"),
        ("fork", "server_error", "PermissionError"),
        ("patch", "timeout", "did not answer"),
    ],
)
async def test_hostile_code_costs_its_own_episode_alone(playing: Make, tool: str, status: str, words: str) -> None:
    async with playing(HOSTILE, entry="app:Bad") as bad, playing(HOSTILE, entry="app:Bad") as other:
        assert await bad.text("count") == "1"
        outcome = await bad.call(tool, 2.0)
        assert outcome.status == status, outcome
        assert words in (outcome.error or "")
        assert await bad.state() == {"n": 1}, "the state is that after the last finished call"
        assert await other.text("count") == "1"
        assert bad.environment.done == (tool in ("leave", "spin", "patch"))
        if bad.environment.done:
            following = await bad.call("count")
            assert (following.status, following.owner) == ("server_error", Owner.ENVIRONMENT)
            assert "cannot be brought back" in (following.error or "")


async def test_the_state_is_what_the_attributes_are_whatever_is_written_or_patched(playing: Make) -> None:
    async with playing(HOSTILE, entry="app:Bad") as bad:
        assert await bad.text("forge") == "forged"
        assert await bad.state() == {"n": 0}
    async with playing(HOSTILE, entry="app:Bad") as bad, playing(HOSTILE, entry="app:Bad") as other:
        await bad.call("reach")
        with pytest.raises(TemplateError, match="no JSON object"):
            await bad.file()
        assert await other.text("count") == "1"
        assert await other.state() == {"n": 1}


SEVERAL = {
    "bank/__init__.py": "",
    "bank/accounts.py": """
class Bank:
    def __init__(self):
        self.balance = 0

    def _load(self, config):
        self.balance = config["balance"]

    def pay(self, amount: int) -> dict:
        self.balance -= amount
        return {"balance": self.balance}
""",
    "tools.py": """
import json
from pathlib import Path

RATES = json.loads(Path("rates.json").read_text())
used = 0

def convert(amount: float, to: str) -> float:
    global used
    used += 1
    return amount * json.loads(Path(__file__).with_name("rates.json").read_text())[to]

async def later(n: int) -> int:
    import bank.accounts
    return n + 1
""",
    "rates.json": '{"EUR": 2}',
}


async def test_several_classes_and_modules_are_one_environment(playing: Make) -> None:
    entry = ["bank.accounts:Bank", "tools"]
    document: dict[str, Any] = {"entry": entry, "state": {"tools": ["used"]}, "load": "_load"}
    async with playing(SEVERAL, {"Bank": {"balance": 10}}, **document) as player:
        assert [tool.name for tool in player.environment.tools] == ["pay", "convert", "later"]
        assert await player.text("pay", amount=3) == '{"balance":7}'
        assert await player.text("convert", amount=1.5, to="EUR") == "3.0"
        assert await player.text("later", n=1) == "2"
        assert await player.state() == {"Bank": {"balance": 7}, "tools": {"used": 1}}
    async with playing(SEVERAL, {"Bank": {"balance": 1}}, **document) as player:
        assert (await player.state())["tools"] == {"used": 0}, "no episode sees another's"


@pytest.mark.parametrize(
    ("code", "document", "words"),
    [
        ("x = 1 / 0", {"entry": "app:Desk"}, r"app does not load.*app\.py.*line 1.*ZeroDivisionError"),
        ("x = 1", {"entry": "app:Desk"}, "no class 'Desk'"),
        ("x = 1", {"entry": "desk:Desk"}, "no module 'desk' among the files"),
        ("x = 1", {"entry": "json", "state": []}, "a module of Python's own"),
        ("class A:\n    def go(self, to): ...", {"entry": "app:A"}, r"app\.py:2: go: to has no annotation"),
        ("class A:\n    def go(self, to: bytes): ...", {"entry": "app:A"}, r"app\.py:2: go: to: bytes cannot be"),
        ("class A:\n    def go(self, *to: int): ...", {"entry": "app:A"}, r"app\.py:2: go: \*to cannot be described"),
        ("class A:\n    def done(self): ...", {"entry": "app:A"}, "'done' is a name of the platform's own"),
        ("class A: ...", {"entry": "app:A", "exclude": ["go"]}, "exclude: there is no method 'go'"),
        ("class A: ...", {"entry": "app:A", "errors": ["Wrong"]}, "no exception class 'Wrong'"),
        ("class A: ...", {"entry": "app:A", "docs": "d.json"}, "no text file 'd.json'"),
        ("class A: ...", {"entry": "app:A", "entrance": 1}, "entrance: is no field"),
        ("x = 1", {"entry": "app"}, "state names what of the module app is kept"),
    ],
)
async def test_what_is_no_environment_is_told_when_it_is_loaded(
    prepare: Callable[..., Any], code: str, document: dict[str, Any], words: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        await prepare(code, **document)
    flat = " ".join(str(caught.value).split())
    assert re.search(words, flat), flat


@pytest.mark.parametrize(
    ("body", "start", "document", "words"),
    [
        ("raise ValueError('not today')", None, {}, "not today"),
        ("self.when = iter([])", None, {}, "when is a list_iterator"),
        ("self.n = 1", None, {"state": ["m"]}, "no attribute 'm'"),
        ("self.n = 1", None, {"load": "fill"}, "no method 'fill'"),
        ("import os; os._exit(1)", None, {}, "does not begin"),
    ],
)
async def test_an_episode_that_cannot_begin_says_why(
    playing: Make, body: str, start: Any, document: dict[str, Any], words: str
) -> None:
    code = f"class A:\n    def __init__(self):\n        {body}\n    def go(self) -> None: ...\n"
    with pytest.raises(TemplateError, match=words):
        async with playing(code, start, entry="app:A", **document):
            pass


DOCUMENTED = {
    "app.py": "class A:\n    def go(self, to, how=None):\n        self.at = to\n        return [to, how]\n",
    "docs.json": json.dumps(
        {"name": "go", "description": "Goes.", "parameters": {"type": "dict", "required": ["to"], "properties": {
            "to": {"type": "float", "description": "Where."}, "how": {"type": "any"}}}}
    ),
}  # fmt: skip


async def test_function_docs_describe_what_has_no_annotations(playing: Make) -> None:
    async with playing(DOCUMENTED, entry="app:A", docs="docs.json") as one:
        (tool,) = one.environment.tools
        assert tool.description == "Goes."
        assert tool.input_schema["properties"]["to"] == {"type": "number", "description": "Where."}
        assert await one.text("go", to=1, how={"any": ["thing"]}) == '[1.0,{"any":["thing"]}]'
        assert (await one.call("go", to="x")).status == "invalid_args"
        assert await one.state() == {"at": 1.0}


CONVERSATION = {
    "parcels": {},
    "conversation": {"messages": ["And which are there?", ""], "withhold": {"3": ["close"]}},
}


async def test_a_written_conversation_goes_turn_by_turn(playing: Make) -> None:
    async with playing(DESK, CONVERSATION, **RULES) as desk:
        names = [tool.name for tool in desk.environment.tools]
        assert names == ["add", "names", "speed", "respond"]
        await desk.text("add", name="B", parcel={"weight": 1})
        assert (await desk.call("close")).status == "tool_not_found"
        assert await desk.text("respond", message="It is in.") == "And which are there?"
        await desk.text("names")
        said = await desk.text("respond", message="B.")
        assert said.startswith("New tools are available now:\n{")
        assert json.loads(said.splitlines()[1])["name"] == "close"
        assert [tool.name for tool in desk.environment.tools] == ["add", "names", "speed", "close", "respond"]
        turns = (await desk.state())["turns"]
        assert [[call["tool"] for call in turn["calls"]] for turn in turns] == [["add", "close"], ["names"], []]
        assert [turn["answer"] for turn in turns] == ["It is in.", "B.", None]
        assert turns[0]["calls"][1]["status"] == "tool_not_found"
        assert "ended" in await desk.text("respond", message="Bye.")
        assert desk.environment.done
        assert [list(turn["state"]["parcels"]) for turn in (await desk.state())["turns"]] == [["B"]] * 3


@pytest.mark.parametrize(
    ("conversation", "words"),
    [
        ({"messages": ["a"], "withhold": {"3": ["close"]}}, "there is no turn 3"),
        ({"messages": ["a"], "withhold": {"2": ["fly"]}}, "there is no tool 'fly'"),
        ({"messages": "a"}, r"start\.conversation: messages"),
        ({}, "messages: is missing"),
    ],
)
async def test_a_conversation_that_cannot_be_had_is_told(playing: Make, conversation: Any, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        async with playing(DESK, {"conversation": conversation}, **RULES):
            pass


async def test_a_process_that_stood_by_begins_as_any_other(runtime_cache: Path) -> None:
    async def at_once() -> None:
        return

    provider = ForkProvider(runtime_cache, lull=at_once)
    try:
        ready = PythonKind(provider, CLASS, warm=True)
        one = payload(CHANCE, {"entry": "app:Dice"})
        told: set[str | None] = set()
        found = ""
        for _ in range(100):
            environment = (await ready.prepare("dice", lambda: one)).environment()
            await environment.reset(5)
            told.add((await environment.call("tell", {}, 30.0)).text)
            found = environment.start_kind
            await environment.close()
            if found == "warm_claim":
                break
            await asyncio.sleep(0.1)
        assert found == "warm_claim"
        assert len(told) == 1, "it tells what a process tells that was forked for it"
    finally:
        await provider.close()
