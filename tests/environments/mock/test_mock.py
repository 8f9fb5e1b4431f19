"""Mocks as an agent and a trainer meet them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inprocess_play import Action, payload, played, playing
from quintain.artifacts import LocalArtifactStore
from quintain.contracts.expression_cost import MAX_WORK
from quintain.environments.inprocess import environment
from quintain.environments.inprocess.machine import MAX_STATE_BYTES
from quintain.environments.mock import mock_kind
from quintain.errors import Owner, SandboxError, SandboxLost, TemplateError

SHOP = """
kind: mock
state: {refunded: false, order: A17, log: [], notes: ""}
tools:
  - name: get_order
    description: An order by its id.
    input_schema:
      type: object
      properties: {id: {type: string, pattern: "^[A-Z][0-9]+$"}, full: {type: boolean}}
      required: [id]
      additionalProperties: false
  - name: refund
    input_schema:
      type: object
      properties: {id: {type: string}, amount: {type: number}, pieces: {type: integer}}
      required: [id, amount]
    otherwise: "No refund of ${arguments.id}."
  - name: note
    input_schema: {type: object, properties: {text: {type: string}}, required: [text]}
  - name: leave
  - name: fail
    input_schema: {type: object, properties: {how: {type: string}}, required: [how]}
    otherwise: {result: null}
rules:
  - tool: get_order
    when: {arguments: {id: "${state.order}"}, calls: 0}
    then: {error: {status: timeout, message: The shop is slow.}}
  - tool: get_order
    when: {arguments: {id: "${state.order}"}}
    then: {result: {id: "${arguments.id}", refunded: "${state.refunded}", at: "${now}"}}
  - tool: refund
    when: {arguments: {id: "${state.order}", amount: {at_most: 20}}, after: [get_order], where: "!state.refunded"}
    then:
      result: "Refunded ${arguments.amount}; log ${state.log}."
      set: {refunded: true, log: "${state.log + [arguments.amount * 2.0]}"}
  - tool: note
    then: {result: noted, set: {notes: "${state.notes + arguments.text}"}}
  - tool: leave
    then: {result: Goodbye., done: true}
  - tool: fail
    when: {arguments: {how: {one_of: [tool_error]}}}
    then: {error: {message: refused}}
  - tool: fail
    when: {arguments: {how: server_error}}
    then: {error: {status: server_error, message: broken}, set: {notes: half done}}
  - tool: fail
    when: {arguments: {how: invalid_args}}
    then: {error: {status: invalid_args, message: not so}}
  - tool: fail
    when: {arguments: {how: expression}}
    then: {result: "${int(state.order)}", set: {notes: never}}
  - tool: fail
    when: {arguments: {how: slow}}
    then: {result: late, set: {notes: late}, latency: {ms: 30}}
"""


async def test_the_first_rule_that_applies_counts(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        too_early = await player.call("refund", id="A17", amount=5)
        assert (too_early.status, too_early.error, too_early.owner) == ("tool_error", "No refund of A17.", Owner.AGENT)
        first = await player.call("get_order", id="A17")
        assert (first.status, first.error, first.owner) == ("timeout", "The shop is slow.", Owner.ENVIRONMENT)
        assert (await player.call("refund", id="A17", amount=5)).status == "tool_error"  # nothing succeeded yet
        assert json.loads(await player.text("get_order", id="A17")) == {
            "id": "A17", "refunded": False, "at": "2026-02-10T00:00:04Z",
        }  # fmt: skip
        assert (await player.call("refund", id="A17", amount=20.5)).status == "tool_error"
        assert await player.text("refund", id="A17", amount=5) == "Refunded 5; log [10]."
        assert (await player.call("refund", id="A17", amount=5)).status == "tool_error"
        unruled = await player.call("get_order", id="B1")
        assert (unruled.status, unruled.error) == ("tool_error", "get_order has no answer to that; try other arguments")
        assert await player.state() == {
            "refunded": True, "order": "A17", "log": [10.0], "notes": "",
            "_episode": {
                "seconds": 8, "done": False,
                "calls": {"get_order": 3, "refund": 5, "note": 0, "leave": 0, "fail": 0},
                "succeeded": {"get_order": 1, "refund": 1, "note": 0, "leave": 0, "fail": 0},
            },
        }  # fmt: skip


MATCHES: list[tuple[Any, list[Any], list[Any]]] = [
    ("x", ["x"], ["y", 1, None]),
    (1, [1, 1.0], [2, True, "1"]),
    ({"equals": {"a": [1]}}, [{"a": [1.0]}], [{"a": [True]}, {"a": [1], "b": 2}, {}]),
    ({"equals": None}, [None], ["", 0, False]),
    ({"one_of": [1, "x", False]}, [1, "x", False], [0, "y", True]),
    ({"matches": "^ab+$"}, ["abb"], ["xab", "AB", 3]),
    ({"matches": "(a+)+$"}, ["a"], ["a" * 5000 + "!"]),
    ({"at_least": 2, "at_most": 3.5}, [2, 3.5], [1.9, 4, "3", True, None]),
    ({"absent": False, "at_least": 0}, [0], [-1]),
]


@pytest.mark.parametrize(("asked", "yes", "no"), MATCHES, ids=[json.dumps(one[0]) for one in MATCHES])
async def test_what_can_be_asked_of_an_argument(tmp_path: Path, asked: Any, yes: list[Any], no: list[Any]) -> None:
    document = {
        "kind": "mock",
        "tools": [{"name": "t", "input_schema": {"type": "object", "properties": {"x": {}}}, "otherwise": "no"}],
        "rules": [{"tool": "t", "when": {"arguments": {"x": asked}}, "then": {"result": "yes"}}],
    }
    async with playing(mock_kind, document, tmp_path) as player:
        assert [(await player.call("t", x=one)).text for one in yes] == ["yes"] * len(yes)
        assert [(await player.call("t", x=one)).error for one in no] == ["no"] * len(no)
        assert (await player.call("t")).error == "no"


async def test_an_argument_may_have_to_be_absent(tmp_path: Path) -> None:
    document = {
        "kind": "mock",
        "tools": [{"name": "t", "input_schema": {"type": "object", "properties": {"x": {}}}}],
        "rules": [{"tool": "t", "when": {"arguments": {"x": {"absent": True}}}, "then": {"result": [1, {"a": "é"}]}}],
    }
    async with playing(mock_kind, document, tmp_path) as player:
        assert await player.text("t") == '[1,{"a":"é"}]'
        assert (await player.call("t", x=None)).status == "tool_error"


async def test_how_often_a_tool_was_called_is_asked_within_bounds(tmp_path: Path) -> None:
    rules = [
        {"tool": "t", "when": {"calls": {"at_most": 1}}, "then": {"error": {"message": "busy"}}},
        {"tool": "t", "when": {"calls": {"at_least": 2, "at_most": 3}}, "then": {"result": "${calls.t}"}},
    ]
    document = {"kind": "mock", "tools": [{"name": "t", "otherwise": "gone"}], "rules": rules}
    async with playing(mock_kind, document, tmp_path) as player:
        outcomes = [await player.call("t") for _ in range(5)]
        assert [one.text or one.error for one in outcomes] == ["busy", "busy", "2", "3", "gone"]


@pytest.mark.parametrize(
    ("how", "status", "owner", "notes"),
    [
        ("tool_error", "tool_error", Owner.AGENT, ""),
        ("server_error", "server_error", Owner.ENVIRONMENT, "half done"),
        ("invalid_args", "invalid_args", Owner.AGENT, ""),
        ("expression", "server_error", Owner.ENVIRONMENT, ""),
    ],
)
async def test_errors_are_whose_they_are(tmp_path: Path, how: str, status: str, owner: Owner, notes: str) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        outcome = await player.call("fail", how=how)
        assert (outcome.status, outcome.owner, outcome.text) == (status, owner, None)
        state = await player.state()
        assert (state["notes"], state["_episode"]["calls"]["fail"]) == (notes, 1)
        assert state["_episode"]["succeeded"]["fail"] == 0


async def test_an_expression_that_fails_is_told_to_the_log_and_not_to_the_agent(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        outcome = await player.call("fail", how="expression")
        assert outcome.error == "fail failed inside the environment"
        assert "int(state.order)" in outcome.log


async def test_latency_is_waited_for_and_over_the_timeout_nothing_is_done(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        late = await player.call("fail", 0.01, how="slow")
        assert (late.status, late.owner) == ("timeout", Owner.ENVIRONMENT)
        assert late.error == "fail did not answer within 0.01 s; nothing of it was done"
        assert (await player.state())["notes"] == ""
        in_time = await player.call("fail", how="slow")
        assert (in_time.text, in_time.duration_ms >= 29) == ("late", True)
        state = await player.state()
        assert (state["notes"], state["_episode"]["calls"]["fail"]) == ("late", 2)


async def test_a_rule_may_end_the_episode(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        assert player.environment.done is False
        assert await player.text("leave") == "Goodbye."
        assert player.environment.done is True
        before = await player.file()
        after = await player.call("note", text="more")
        assert (after.status, after.error) == ("tool_error", "the episode has ended; note was not done")
        assert await player.file() == before


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("nothing", {}, "tool_not_found", "no tool is called 'nothing'"),
    ("get_order", {}, "invalid_args", "'id' is a required property"),
    ("get_order", {"id": 3}, "invalid_args", "id: 3 is not of type 'string'"),
    ("get_order", {"id": "a"}, "invalid_args", "does not match"),
    ("get_order", {"id": "A1", "x": 1}, "invalid_args", "'x' was unexpected"),
    ("note", {"text": "x" * 70_000}, "invalid_args", "over 65536"),
    ("note", {"text": "\ud800"}, "invalid_args", "surrogate"),
    ("refund", {"id": "A", "amount": float("inf")}, "invalid_args", "not a JSON number"),
    ("refund", {"id": "A", "amount": 1, "pieces": 2**63}, "invalid_args", "over 64 bits"),
    ("refund", {"id": "A", "amount": 1, "pieces": 1.5}, "invalid_args", "is not of type 'integer'"),
]


@pytest.mark.parametrize(("tool", "arguments", "status", "words"), REFUSED, ids=[f"{i}" for i in range(len(REFUSED))])
async def test_calls_that_are_refused(
    tmp_path: Path, tool: str, arguments: dict[str, Any], status: str, words: str
) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        before = await player.state()
        outcome = await player.environment.call(tool, arguments, 1.0)
        assert (outcome.status, outcome.owner) == (status, Owner.AGENT)
        assert words in (outcome.error or "")
        before["_episode"]["seconds"] = 1
        assert await player.state() == before


async def test_deeply_nested_arguments_are_refused(tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(40):
        nested = [nested]
    document = {
        "kind": "mock",
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "rules": [{"tool": "t", "when": {"where": "arguments.x == 1"}, "then": {"result": 1}}],
    }
    document["tools"][0]["input_schema"] = {"type": "object", "properties": {"x": {}}, "required": ["x"]}  # type: ignore[index]
    async with playing(mock_kind, document, tmp_path) as player:
        assert (await player.call("t", x=nested)).status == "invalid_args"


async def test_numbers_are_of_the_kind_that_the_schema_says(tmp_path: Path) -> None:
    document = {
        "kind": "mock",
        "tools": [
            {
                "name": "t",
                "input_schema": {
                    "type": "object",
                    "properties": {"whole": {"type": "integer"}, "any": {"type": "array", "items": {"type": "number"}}},
                    "required": ["whole", "any"],
                },
            }
        ],
        "rules": [{"tool": "t", "then": {"result": ["${arguments.whole + 1}", "${arguments.any[0] * 0.5}"]}}],
    }
    async with playing(mock_kind, document, tmp_path) as player:
        assert await player.text("t", whole=2.0, any=[3]) == "[3,1.5]"


async def test_elements_must_be_unique_where_the_schema_says_so(tmp_path: Path) -> None:
    items = {"type": "array", "uniqueItems": True}
    schema = {"type": "object", "properties": {"x": items}, "required": ["x"]}
    document = {"kind": "mock", "tools": [{"name": "t", "input_schema": schema, "otherwise": {"result": "ok"}}]}
    async with playing(mock_kind, document, tmp_path) as player:
        assert await player.text("t", x=[1, "1", True, {"a": 1}]) == "ok"
        refused = await player.call("t", x=[{"a": 1}, {"a": 1.0}])
        assert (refused.status, "twice" in (refused.error or "")) == ("invalid_args", True)


async def test_a_start_replaces_facts(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path, start={"order": "B42"}) as player:
        assert json.loads(player.environment.initial[0].path.read_bytes())["order"] == "B42"
        await player.call("get_order", id="B42")
        assert json.loads(await player.text("get_order", id="B42"))["id"] == "B42"
        assert json.loads(player.environment.initial[0].path.read_bytes())["_episode"]["seconds"] == 0


@pytest.mark.parametrize(
    ("start", "words"),
    [({"ordre": "B"}, "no fact of the state is called 'ordre'"), ({"order": "x" * MAX_STATE_BYTES}, "over 131072")],
    ids=["unknown", "large"],
)
async def test_a_start_that_cannot_be(tmp_path: Path, start: dict[str, Any], words: str) -> None:
    kind = mock_kind(LocalArtifactStore(tmp_path))
    environment = (await kind.prepare("any", lambda: payload(SHOP))).environment()
    with pytest.raises(TemplateError, match=words):
        await environment.reset(0, start)


async def test_a_state_that_grows_over_its_bound_fails_the_call_and_stays(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        outcomes = [await player.call("note", text="x" * 60_000) for _ in range(3)]
        assert [one.status for one in outcomes] == ["ok", "ok", "server_error"]
        assert len((await player.state())["notes"]) == 120_000
        assert await player.text("leave") == "Goodbye."


async def test_the_file_of_the_state_is_canonical(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        await player.text("note", text="é")
        data = await player.file()
        assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
        assert rb"\u00e9" in data


async def test_an_environment_is_reset_once_and_has_no_process_to_give_back(tmp_path: Path) -> None:
    async with playing(mock_kind, SHOP, tmp_path) as player:
        environment = player.environment
        assert (environment.start_kind, environment.hibernated) == ("in_process", False)
        assert (await environment.hibernate()).done is False
        with pytest.raises(SandboxError, match="reset before"):
            await environment.reset(0)
    with pytest.raises(SandboxLost):
        await environment.snapshot(tmp_path)


async def test_a_payload_is_read_once(tmp_path: Path) -> None:
    reads: list[int] = []
    kind = mock_kind(LocalArtifactStore(tmp_path))

    def read() -> dict[str, Any]:
        reads.append(1)
        return payload(SHOP)

    ready = await asyncio.gather(*(kind.prepare("one", read) for _ in range(4)))
    assert (len(reads), [bool(one.build_ms) for one in ready].count(True)) == (1, 1)
    assert [tool.name for tool in ready[0].tools] == ["get_order", "refund", "note", "leave", "fail"]
    assert ready[0].tools[3].input_schema == {"type": "object", "properties": {}}
    assert (ready[0].state, tuple(ready[0].state_names), ready[0].warm) == ("state.json", ("state.json",), True)


async def test_what_is_wrong_with_a_payload_is_told_and_not_kept(tmp_path: Path) -> None:
    kind = mock_kind(LocalArtifactStore(tmp_path))
    broken = yaml.safe_load(SHOP)
    broken["rules"][1]["tool"] = "got_order"
    broken["rules"][3]["then"]["set"]["nots"] = 1
    with pytest.raises(TemplateError, match=r"rules\[1\]\.tool.*'got_order'.*rules\[3\]\.then\.set\.nots"):
        await kind.prepare("one", lambda: payload(broken))
    with pytest.raises(TemplateError, match="no instant"):
        await kind.prepare("one", lambda: payload(SHOP) | {"epoch": "yesterday"})
    assert (await kind.prepare("one", lambda: payload(SHOP))).tools


async def test_its_class_says_that_no_code_runs(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    known = mock_kind(store).episode_class
    assert (known.environment_class, known.runtime) == ("mock-v1", "inprocess quintain-mock/1")
    digest = "sha256:" + known.policy.rpartition("/")[2]
    assert json.loads(store.get(digest)) == {
        "schema": "quintain.dev/in-process-policy/v1", "code": False, "data": True,
    }  # fmt: skip
    assert store.get("sha256:" + known.dependency_lock.rpartition("/")[2]) == b""


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["get_order", "refund", "note", "leave", "fail", "nothing"]),
        st.dictionaries(
            st.sampled_from(["id", "amount", "pieces", "text", "how", "full", "x"]),
            st.sampled_from(["A17", "B1", "server_error", "expression", "", 3, 2.5, True, None, [1], {"a": []}, 2**70])
            | st.text(max_size=5),
            max_size=3,
        ),
    ),
    max_size=12,
)


def test_the_same_actions_come_to_the_same_and_nothing_is_the_platforms_fault(tmp_path: Path) -> None:
    ready = asyncio.run(mock_kind(LocalArtifactStore(tmp_path)).prepare("one", lambda: payload(SHOP)))

    @settings(max_examples=60)
    @given(actions=ACTIONS, seed=st.integers(0, 2**53 - 1))
    def alike(actions: list[Action], seed: int) -> None:
        first = asyncio.run(played(ready, actions, tmp_path, seed))
        assert asyncio.run(played(ready, actions, tmp_path, seed)) == first

    alike()


BOMBS = """
kind: mock
state: {l: [], s: ""}
tools:
  - name: fill
    input_schema:
      type: object
      properties: {l: {type: array, items: {type: string}}, s: {type: string}}
  - name: ask
  - name: count
    otherwise: {result: "${size(state.l)} and ${size(state.s)}"}
rules:
  - {tool: fill, when: {arguments: {l: {absent: false}}}, then: {result: filled, set: {l: "${arguments.l}"}}}
  - {tool: fill, then: {result: filled, set: {s: "${state.s + arguments.s}"}}}
  - tool: ask
    then: {result: "${EXPRESSION}"}
"""


@pytest.mark.parametrize(
    "expression",
    [
        "join(state.l.map(a, state.s))",
        "sort(state.l.map(a, state.l))",
        "size(state.l.map(a, state.s).map(a, [a, a]))",
        "state.s.matches(state.s)",
    ],
)
async def test_what_an_agent_puts_into_the_state_does_not_hold_the_server(expression: str, tmp_path: Path) -> None:
    async with playing(mock_kind, BOMBS.replace("EXPRESSION", expression), tmp_path) as shop:
        for arguments in ({"l": [str(n) for n in range(490)]}, {"s": "x" * 50_000}, {"s": "x" * 50_000}):
            assert await shop.text("fill", **arguments) == "filled"
        before = await shop.text("count")
        turns = 0

        async def meanwhile() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(meanwhile())
        for _ in range(3):
            await asyncio.sleep(0)
            seen = turns
            outcome = await shop.call("ask")
            await asyncio.sleep(0)
            assert turns > seen
            assert (outcome.status, outcome.owner) == ("server_error", Owner.ENVIRONMENT)
            assert (
                "would take too long on this state" in outcome.log or "the pattern has 100000 characters" in outcome.log
            )
        other.cancel()
        assert await shop.text("count") == before == "490 and 100000"


async def test_a_bomb_is_refused_before_an_episode_begins(tmp_path: Path) -> None:
    bomb = "size([1]" + ".map(a, [a, a])" * 26 + ")"
    with pytest.raises(TemplateError, match=r"rules\[2\].then.result: .*26 macros work upon each other"):
        async with playing(mock_kind, BOMBS.replace("EXPRESSION", bomb), tmp_path):
            pass


MANY = """
kind: mock
state: {l: [], n: 0}
tools:
  - name: fill
    input_schema:
      type: object
      properties: {l: {type: array, items: {type: string, pattern: "^[a-z0-9]{1,9}$"}}, n: {type: integer}}
  - {name: ask, otherwise: {result: none}}
rules:
  - {tool: fill, when: {arguments: {l: {absent: false}}}, then: {result: filled, set: {l: "${arguments.l}"}}}
  - {tool: fill, then: {result: filled, set: {n: "${arguments.n}"}}}
"""


@pytest.mark.parametrize(("rules", "status"), [(20, "ok"), (60, "server_error")])
async def test_many_expressions_that_take_long_together_leave_others_their_turn(
    rules: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "MAX_TOGETHER", 2 * MAX_WORK)
    asked = "".join(
        f'  - {{tool: ask, when: {{where: "state.l.exists(a, a == \'x{n}\')"}}, then: {{result: "{n}"}}}}\n'
        for n in range(rules)
    )
    async with playing(mock_kind, MANY + asked, tmp_path) as shop:
        assert await shop.text("fill", l=[f"e{n}" for n in range(400)]) == "filled"
        turns = 0

        async def meanwhile() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        other = asyncio.create_task(meanwhile())
        await asyncio.sleep(0)
        seen = turns
        outcome = await shop.call("ask")
        assert turns > seen
        other.cancel()
        assert outcome.status == status
        assert status == "ok" or "would take too long together" in outcome.log
        assert (await shop.state())["_episode"]["calls"]["ask"] == 1


async def test_many_arguments_that_are_matched_with_patterns_leave_others_their_turn(tmp_path: Path) -> None:
    async with playing(mock_kind, MANY, tmp_path) as shop:
        outcome = await shop.call("fill", l=["a"] * 12_000)
        assert (outcome.status, outcome.owner) == ("server_error", Owner.ENVIRONMENT)
        assert await shop.text("fill", n=3) == "filled"
        assert (await shop.call("fill", l=["A"])).status == "invalid_args"
