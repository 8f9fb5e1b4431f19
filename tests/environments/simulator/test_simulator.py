"""Simulators as an agent and a trainer meet them."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inprocess_play import Action, payload, played, playing
from quintain.artifacts import LocalArtifactStore
from quintain.environments.simulator import check, simulator_kind
from quintain.errors import TemplateError

DESK = """
kind: simulator
states:
  greeting: {description: The customer has called.}
  verified: {description: The customer is who they say.}
  locked: {description: Too many wrong PINs.}
  lost: {description: The customer has hung up., terminal: true}
  closed: {description: The case is closed., terminal: true}
initial: greeting
state: {pin: "4711", tries: 0, balance: 10, promised: false}
draws:
  fee: {integer: [1, 9]}
  city: {choice: [Oslo, Bergen]}
  total: {value: "${fee * 2}"}
tools:
  - name: verify_pin
    input_schema: {type: object, properties: {pin: {type: string}}, required: [pin]}
  - name: credit
    input_schema: {type: object, properties: {amount: {type: integer, minimum: 1}}, required: [amount]}
    otherwise: "The customer is not verified (${at})."
  - name: close
  - name: look
    otherwise: {result: {at: "${at}", since: "${in_state}", draws: "${draws}", calls: "${calls.look}"}}
transitions:
  - tool: verify_pin
    from: greeting
    guard: arguments.pin == state.pin
    to: verified
    result: The PIN is right.
  - tool: verify_pin
    from: [greeting]
    guard: state.tries >= 2
    to: locked
    effects: {tries: "${state.tries + 1}"}
    error: {message: "Locked after ${state.tries} tries."}
  - tool: verify_pin
    from: any
    effects: {tries: "${state.tries + 1}"}
    error: {message: Wrong PIN.}
  - tool: credit
    from: [verified]
    guard: state.balance + arguments.amount <= 100
    effects: {balance: "${state.balance + arguments.amount}"}
    result: {balance: "${state.balance}", fee: "${draws.fee}"}
  - tool: close
    from: [verified, locked]
    to: closed
    result: Closed at ${now}.
timers:
  - {name: impatient, after: 6, in: greeting, say: "Are you still there?"}
  - {name: gives_up, after: 8, in: [greeting], to: lost, say: "I have no time for this."}
  - {name: doubts, after: 2, call: credit, guard: "!state.promised", effects: {promised: true}, say: "Is it done?"}
counterpart:
  personas: {terse: {weight: 1}, chatty: {weight: 1}}
  opening: {terse: Hello., default: "Hello, I am calling from ${draws.city}!"}
  moods:
    calm: {weight: 8}
    angry:
      weight: 1
      opening: "This is the third time I call!"
      replies:
        - {matches: "(?i)sorry", say: Fine., mood: calm}
        - {guard: counterpart.spoken >= 3, say: That is it., hangs_up: true}
      otherwise: [Just do it!, Hurry up!]
    silent: {weight: 0, opening: "", otherwise: ""}
    muddled:
      weight: 1
      replies:
        - {matches: "(?i)pin", say: "My PIN is 1234. Or was it 4711?"}
  replies:
    - from: greeting
      matches: "(?i)pin"
      say: {terse: "${state.pin}", chatty: ["It is ${state.pin}.", "Sure, ${state.pin}!"]}
    - {guard: "message.contains('bye')", say: Bye., to: closed}
  otherwise: I do not follow.
"""


async def test_transitions_lead_from_state_to_state(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path) as player:
        refused = await player.call("credit", amount=5)
        assert (refused.status, refused.error) == ("tool_error", "The customer is not verified (greeting).")
        assert (await player.call("verify_pin", pin="1")).error == "Wrong PIN."
        assert await player.text("verify_pin", pin="4711") == "The PIN is right."
        fee = json.loads(await player.text("look"))["draws"]["fee"]
        assert json.loads(await player.text("credit", amount=5)) == {"balance": 15, "fee": fee}
        assert (await player.call("credit", amount=90)).status == "tool_error"
        assert player.environment.done is False
        assert await player.text("close") == "Is it done?\nClosed at 2026-02-10T00:00:07Z."
        assert player.environment.done is True
        state = await player.state()
        assert {name: state[name] for name in ("pin", "tries", "balance", "promised")} == {
            "pin": "4711", "tries": 1, "balance": 15, "promised": True,
        }  # fmt: skip
        assert (state["_episode"]["at"], state["_episode"]["entered"], state["_episode"]["done"]) == ("closed", 7, True)
        assert (await player.call("look")).error == "the episode has ended; look was not done"


async def test_guards_choose_between_transitions_and_an_error_may_move_on(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path) as player:
        errors = [(await player.call("verify_pin", pin="1")).error for _ in range(4)]
        assert errors == ["Wrong PIN.", "Wrong PIN.", "Locked after 3 tries.", "Wrong PIN."]
        assert (await player.state())["_episode"]["at"] == "locked"
        refused = await player.call("verify_pin", pin="4711")
        assert (refused.status, refused.error) == ("tool_error", "Wrong PIN.")


async def test_a_tool_without_words_of_its_own_says_that_it_cannot_be_done(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path) as player:
        assert (await player.call("close")).error == "close cannot be done now"


async def test_timers_fire_before_a_call_and_say_so_once(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path) as player:
        for _ in range(5):
            await player.text("look")
        told = [await player.text("look") for _ in range(2)]
        assert told[0].startswith('Are you still there?\n{"at":"greeting"')
        assert told[1].startswith('{"at":"greeting"')
        gone = await player.call("look")
        assert (gone.status, gone.error) == (
            "tool_error",
            "I have no time for this.\nthe episode has ended; look was not done",
        )
        assert player.environment.done
        assert (await player.state())["_episode"]["calls"]["look"] == 8


async def test_a_counterpart_that_is_gone_tells_its_last_words_when_spoken_to(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path) as player:
        for _ in range(7):
            await player.text("look")
        assert await player.text("respond", message="Hello?") == "I have no time for this."
        assert player.environment.done


async def test_a_timer_counts_from_the_last_success_of_its_tool(tmp_path: Path) -> None:
    document = yaml.safe_load(DESK)
    document["timers"] = [{"name": "again", "after": 2, "call": "look", "say": "Well?"}]
    async with playing(simulator_kind, document, tmp_path) as player:
        calls = [("close", 4), ("look", 1), ("close", 3), ("look", 1), ("look", 2), ("close", 2)]
        said = []
        for name, times in calls:
            for _ in range(times):
                outcome = await player.call(name)
                said.append("Well?" in (outcome.text or outcome.error or ""))
        assert [index for index, one in enumerate(said) if one] == [6, 12]


async def test_a_state_entered_again_is_waited_in_again(tmp_path: Path) -> None:
    document = {
        "kind": "simulator",
        "states": {"a": {}, "b": {}},
        "initial": "a",
        "state": {"fired": 0},
        "tools": [{"name": "go"}, {"name": "stay", "otherwise": {"result": 0}}],
        "transitions": [
            {"tool": "go", "from": "a", "to": "b", "result": "b"},
            {"tool": "go", "from": "b", "to": "a", "result": "a"},
        ],
        "timers": [{"name": "t", "after": 1, "in": "a", "effects": {"fired": "${state.fired + 1}"}}],
    }
    assert check(document) == []
    async with playing(simulator_kind, document, tmp_path) as player:
        for name in ("stay", "stay", "go", "go", "stay", "stay"):
            await player.text(name)
        assert (await player.state())["fired"] == 2


async def test_the_counterpart_opens_and_then_answers_by_rules(tmp_path: Path) -> None:
    start = {"counterpart": {"mood": "calm", "persona": "terse"}, "pin": "99"}
    async with playing(simulator_kind, DESK, tmp_path, start=start) as player:
        assert await player.text("respond", message="Tell me your PIN") == "Hello."
        assert await player.text("respond", message="Your pin, please") == "99"
        assert await player.text("respond", message="What?") == "I do not follow."
        assert await player.text("verify_pin", pin="99") == "The PIN is right."
        assert await player.text("respond", message="pin") == "I do not follow."
        assert await player.text("respond", message="bye") == "Bye."
        assert player.environment.done
        state = await player.state()
        assert (state["_episode"]["at"], state["_episode"]["counterpart"]) == (
            "closed", {"hung_up": False, "mood": "calm", "persona": "terse", "spoken": 5},
        )  # fmt: skip


async def test_an_angry_counterpart_hangs_up_and_ends_the_episode(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path, start={"counterpart": "angry"}) as player:
        assert await player.text("respond", message="Hello") == "This is the third time I call!"
        assert await player.text("respond", message="Hm") in ("Just do it!", "Hurry up!")
        assert await player.text("respond", message="Hm") in ("Just do it!", "Hurry up!")
        assert await player.text("respond", message="Hm") == "That is it."
        assert player.environment.done
        state = await player.state()
        assert (state["_episode"]["counterpart"]["hung_up"], state["_episode"]["at"]) == (True, "greeting")


async def test_a_mood_may_change(tmp_path: Path) -> None:
    start = {"counterpart": {"mood": "angry", "persona": "terse"}}
    async with playing(simulator_kind, DESK, tmp_path, start=start) as player:
        said = [await player.text("respond", message=one) for one in ("Hello", "So sorry!", "Your PIN?")]
        assert said == ["This is the third time I call!", "Fine.", "4711"]


async def test_silence_and_contradiction_can_be_forced(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path, start={"counterpart": "silent"}) as player:
        assert [await player.text("respond", message="Hello?") for _ in range(2)] == ["", ""]
    async with playing(simulator_kind, DESK, tmp_path, start={"counterpart": "muddled"}) as player:
        await player.text("respond", message="Hello")
        assert await player.text("respond", message="PIN?") == "My PIN is 1234. Or was it 4711?"


async def test_respond_is_a_tool_with_one_message(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path) as player:
        tool = player.environment.tools[-1]
        assert (tool.name, tool.input_schema["required"]) == ("respond", ["message"])
        assert (await player.call("respond")).status == "invalid_args"
        assert (await player.call("respond", message="x", tone="y")).status == "invalid_args"


async def test_the_seed_draws_who_calls_and_what_about(tmp_path: Path) -> None:
    ready = await simulator_kind(LocalArtifactStore(tmp_path)).prepare("one", lambda: payload(DESK))
    begun = []
    for seed in range(300):
        _, data = await played(ready, [], tmp_path, seed)
        begun.append(json.loads(data)["_episode"])
    moods = Counter(one["counterpart"]["mood"] for one in begun)
    assert moods["calm"] > 150
    assert min(moods["angry"], moods["muddled"]) > 5
    assert moods["silent"] == 0
    assert {one["counterpart"]["persona"] for one in begun} == {"terse", "chatty"}
    assert {one["draws"]["fee"] for one in begun} == set(range(1, 10))
    assert all(one["draws"]["total"] == 2 * one["draws"]["fee"] for one in begun)


async def test_a_task_may_begin_in_another_state(tmp_path: Path) -> None:
    async with playing(simulator_kind, DESK, tmp_path, start={"at": "verified", "balance": 95}) as player:
        assert json.loads(await player.text("credit", amount=5))["balance"] == 100


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"at": "nowhere"}, "no state is called 'nowhere'"),
        ({"at": "closed"}, "ends the episode"),
        ({"at": 3}, "no state is called '3'"),
        ({"counterpart": "furious"}, "no mood is called 'furious'; there are: angry, calm"),
        ({"counterpart": {"persona": "shy"}}, "no persona is called 'shy'"),
        ({"counterpart": {"tone": "shy"}}, "a map of mood and persona"),
        ({"counterpart": ["angry"]}, "a map of mood and persona"),
        ({"pim": 1}, "no fact of the state is called 'pim'"),
    ],
)
async def test_a_start_that_cannot_be(tmp_path: Path, start: dict[str, Any], words: str) -> None:
    kind = simulator_kind(LocalArtifactStore(tmp_path))
    environment = (await kind.prepare("any", lambda: payload(DESK))).environment()
    with pytest.raises(TemplateError, match=words):
        await environment.reset(0, start)


async def test_nobody_can_be_forced_where_nobody_is(tmp_path: Path) -> None:
    document = yaml.safe_load(DESK)
    del document["counterpart"]
    kind = simulator_kind(LocalArtifactStore(tmp_path))
    environment = (await kind.prepare("any", lambda: payload(document))).environment()
    with pytest.raises(TemplateError, match="nobody to speak with"):
        await environment.reset(0, {"counterpart": "angry"})
    assert "respond" not in {tool.name for tool in environment.tools}


async def test_what_cannot_be_drawn_is_told_when_the_payload_is_made_ready(tmp_path: Path) -> None:
    document = yaml.safe_load(DESK)
    document["draws"]["fee"] = {"integer": [9, 1]}
    with pytest.raises(TemplateError, match=r"draws\.fee: no integer is from 9 to 1"):
        await simulator_kind(LocalArtifactStore(tmp_path)).prepare("any", lambda: payload(document))


async def test_an_effect_that_fails_leaves_the_state_but_for_the_count(tmp_path: Path) -> None:
    document = yaml.safe_load(DESK)
    document["transitions"][4]["effects"] = {"tries": "${state.tries + 1}", "balance": "${1 / state.tries}"}
    async with playing(simulator_kind, document, tmp_path, start={"at": "verified"}) as player:
        outcome = await player.call("close")
        assert (outcome.status, outcome.error) == ("server_error", "close failed inside the environment")
        assert "1 / state.tries" in outcome.log
        state = await player.state()
        assert (state["tries"], state["_episode"]["at"], state["_episode"]["calls"]["close"]) == (0, "verified", 1)


MESSAGES = st.sampled_from(["Hello", "Your PIN?", "sorry", "bye", "", "é"]) | st.text(max_size=5)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("respond"), st.fixed_dictionaries({"message": MESSAGES})),
        st.tuples(st.just("verify_pin"), st.fixed_dictionaries({"pin": st.sampled_from(["4711", "1"])})),
        st.tuples(st.just("credit"), st.fixed_dictionaries({"amount": st.integers(-1, 2**65) | st.just(2.0)})),
        st.tuples(st.sampled_from(["close", "look", "nothing", "respond"]), st.just({})),
    ),
    max_size=14,
)
STARTS = st.sampled_from(
    [None, {"counterpart": "angry"}, {"counterpart": "silent", "balance": 2**63 - 1}, {"at": "locked"}]
)


def test_the_same_seed_and_actions_come_to_the_same_and_nothing_is_the_platforms_fault(tmp_path: Path) -> None:
    ready = asyncio.run(simulator_kind(LocalArtifactStore(tmp_path)).prepare("one", lambda: payload(DESK)))
    again = asyncio.run(simulator_kind(LocalArtifactStore(tmp_path)).prepare("one", lambda: payload(DESK)))

    @settings(max_examples=60)
    @given(actions=ACTIONS, seed=st.integers(0, 2**53 - 1), start=STARTS)
    def alike(actions: list[Action], seed: int, start: dict[str, Any] | None) -> None:
        first = asyncio.run(played(ready, actions, tmp_path, seed, start))
        assert asyncio.run(played(again, actions, tmp_path, seed, start)) == first

    alike()
