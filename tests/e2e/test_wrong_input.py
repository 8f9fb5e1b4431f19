"""Wrong input of every kind: a clear answer of the right kind, and the session goes on."""

import json
from typing import Any

import pytest

from e2e.serving import Server
from e2e.wire import Wire, step

pytestmark = pytest.mark.xdist_group("e2e-pack")

MESSAGES: dict[str, tuple[Any, str]] = {
    "no JSON": ("{not json", "INVALID_JSON"),
    "empty text": ("", "INVALID_JSON"),
    "half a document": ('{"type": "step", "data": {', "INVALID_JSON"),
    "binary frame": (b"\x00\x01\x02", "INVALID_JSON"),
    "binary frame of JSON": (b'{"type": "state"}', "INVALID_JSON"),
    "nested without end": ("[" * 200_000 + "]" * 200_000, "INVALID_JSON"),
    "number of absurd length": ('{"type": "state", "x": ' + "9" * 20_000 + "}", "INVALID_JSON"),
    "a list": ([1, 2], "VALIDATION_ERROR"),
    "null": ("null", "VALIDATION_ERROR"),
    "unknown type": ({"type": "dance"}, "UNKNOWN_TYPE"),
    "no type": ({"data": {}}, "UNKNOWN_TYPE"),
    "type that is no text": ({"type": {"a": 1}}, "UNKNOWN_TYPE"),
    "step without data": ({"type": "step"}, "VALIDATION_ERROR"),
    "step with null data": ({"type": "step", "data": None}, "VALIDATION_ERROR"),
    "unknown field": ({"type": "state", "more": 1}, "VALIDATION_ERROR"),
    "unknown action": ({"type": "step", "data": {"type": "fly"}}, "VALIDATION_ERROR"),
    "call without a tool": ({"type": "step", "data": {"type": "call_tool"}}, "VALIDATION_ERROR"),
    "tool name that is no text": (step(3, {}), "VALIDATION_ERROR"),  # type: ignore[arg-type]
    "arguments that are no object": (step("list_products", [1]), "VALIDATION_ERROR"),
    "arguments that are null": (step("list_products", None), "VALIDATION_ERROR"),
    "unknown field of an action": (
        {"type": "step", "data": {"type": "list_tools", "extra": 1}},
        "VALIDATION_ERROR",
    ),
    "reset with a list": ({"type": "reset", "data": [1]}, "VALIDATION_ERROR"),
    "mcp without data": ({"type": "mcp"}, "VALIDATION_ERROR"),
}

RESETS: dict[str, tuple[dict[str, Any], str]] = {
    "no scenario": ({}, "scenario"),
    "scenario that is no text": ({"scenario": 7}, "scenario"),
    "unknown scenario": ({"scenario": "nowhere_9"}, "nowhere_9"),
    "index out of range": ({"scenario": "vet_clinic_1", "task_idx": 99}, "99"),
    "negative index": ({"scenario": "vet_clinic_1", "task_idx": -1}, "-1"),
    "index that is text": ({"scenario": "vet_clinic_1", "task_idx": "3"}, "task_idx"),
    "index that is half": ({"scenario": "vet_clinic_1", "task_idx": 0.5}, "task_idx"),
    "index that is true": ({"scenario": "vet_clinic_1", "task_idx": True}, "task_idx"),
    "seed too large": ({"scenario": "vet_clinic_1", "seed": 2**53}, "seed"),
    "seed below zero": ({"scenario": "vet_clinic_1", "seed": -1}, "seed"),
    "task that is no text": ({"scenario": "vet_clinic_1", "task": 5}, "task"),
    "rewards that are no object": ({"scenario": "vet_clinic_1", "reward_config": 1}, "reward_config"),
    "a reward that is no number": ({"scenario": "vet_clinic_1", "reward_config": {"complete": "x"}}, "complete"),
    "attempt below zero": ({"scenario": "vet_clinic_1", "attempt": -1}, "attempt"),
    "path for a name": ({"scenario": "../../etc/passwd"}, "etc"),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_wrong_message_gets_its_code_and_the_session_goes_on(wire: Wire, kind: str) -> None:
    message, code = MESSAGES[kind]
    wire.reset("vet_clinic_1", 3, episode_id="kept")
    answer = wire.ask(message)
    assert answer["type"] == "error"
    assert answer["data"]["code"] == code
    assert answer["data"]["message"]
    if code == "VALIDATION_ERROR" and isinstance(message, dict):
        assert answer["data"]["errors"][0]["msg"]
    assert wire.ask({"type": "state"}) == {"type": "state", "data": {"episode_id": "kept", "step_count": 0}}
    assert wire.tools()


@pytest.mark.parametrize("kind", RESETS)
def test_a_wrong_reset_is_an_error_observation_and_the_session_goes_on(wire: Wire, kind: str) -> None:
    data, named = RESETS[kind]
    answer = wire.ask({"type": "reset", "data": data})
    assert answer["type"] == "observation"
    assert answer["data"]["observation"]["reward_type"] == "reset_error"
    assert named in answer["data"]["observation"]["error"]
    assert (answer["data"]["reward"], answer["data"]["done"]) == (None, False)
    assert wire.reset("vet_clinic_1")["num_tools"] == 25


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '"\\ud800"', "[" * 100 + "]" * 100])
def test_values_that_json_does_not_have(wire: Wire, text: str) -> None:
    wire.reset("outdoor_marketplace_1")
    answer = wire.ask(
        '{"type": "step", "data": {"type": "call_tool", "tool_name": "add_cart_item", '
        f'"arguments": {{"product_id": {text}, "quantity": 1}}}}}}'
    )
    observation = answer["data"]["observation"]
    assert observation["reward_type"] == "invalid_args"
    assert "add_cart_item" in observation["error"]
    assert answer["data"]["reward"] == -1.0
    assert wire.value("list_products", search="Tarnlight")


def test_wrong_tools_and_arguments(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1", 0)
    unknown = wire.call("no_such_tool")
    assert (unknown["reward"], unknown["observation"]["reward_type"]) == (-1.0, "tool_not_found")
    assert "no_such_tool" in unknown["observation"]["error"]
    for arguments in ({"product_id": "abc", "quantity": 1}, {"quantity": 1}, {"product_id": [], "quantity": {}}, {}):
        wrong = wire.call("add_cart_item", **arguments)
        assert (wrong["reward"], wrong["observation"]["reward_type"]) == (-1.0, "invalid_args"), arguments
        assert wrong["observation"]["error"]
    for name in ("", " ", "\ud800", "list_products ", "../list_products", "__class__", "x" * 5000, "\u0000"):
        assert wire.seen(name)["reward_type"] == "tool_not_found"
    assert wire.call("verify")["observation"]["reward_type"] == "incomplete"  # none of it did anything
    wire.reset("parcel_desk_1", 0)
    missing = wire.call("get_parcel", parcel_id=987654)
    assert (missing["reward"], missing["observation"]["reward_type"]) == (0.0, "tool_error")
    assert "404" in missing["observation"]["error"]


def test_half_a_surrogate_pair_is_refused_wherever_it_stands(wire: Wire) -> None:
    half = "\ud83d"
    for data in ({"scenario": half}, {"scenario": "vet_clinic_1", "episode_id": half}, {"scenario": "v", "task": half}):
        observation = wire.ask({"type": "reset", "data": data})["data"]["observation"]
        assert observation["reward_type"] == "reset_error"
    wire.reset("outdoor_marketplace_1", 0)
    for answer in (
        wire.call("verify", final_answer=half),
        wire.call("list_products", search=half),
        wire.call("list_products", **{half: 1}),
        wire.call("create_product_review", product_id=5, rating=5, title="a", body=[half]),
    ):
        assert (answer["reward"], answer["observation"]["reward_type"]) == (-1.0, "invalid_args")
    assert wire.call("verify")["reward"] == 0.1


def test_what_a_reset_does_not_know_is_ignored_and_named(wire: Wire) -> None:
    observation = wire.reset("vet_clinic_1", colour="red", half="\ud800")
    assert "colour" in observation["warning"]
    assert observation["num_tools"] == 25


def test_null_for_an_optional_and_text_for_a_number_are_the_applications_to_judge(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1")
    plain = wire.seen("list_products", search="Tarnlight")
    assert plain["reward_type"] == "tool_call_ok"
    nulled = wire.seen("list_products", search="Tarnlight", category_id=None, max_price=None, sort_by=None)
    assert nulled["tool_result"] == plain["tool_result"]
    assert (
        wire.seen("get_product", product_id="3")["tool_result"] == wire.seen("get_product", product_id=3)["tool_result"]
    )
    assert wire.seen("get_product", product_id="three")["reward_type"] == "invalid_args"


def test_every_character_comes_back(wire: Wire) -> None:
    words = 'a\u2028b\u2029c \U0001f600 \u4e2d\u6587 \u202eright to left \u00e9\u0301 \x7f \t\n quote" back\\slash'
    wire.reset("outdoor_marketplace_1")
    made = wire.value("create_product_review", product_id=5, rating=5, title=words, body=words * 3)
    assert made["title"] == words
    wire.send(json.dumps(step("list_product_reviews", {"product_id": 5}), ensure_ascii=False))
    raw = wire.socket.recv(30)
    assert isinstance(raw, str)
    assert raw.isascii()  # no reader splits it at U+2028
    listed = json.loads(json.loads(raw)["data"]["observation"]["tool_result"])
    assert words in [review["title"] for review in listed["reviews"]]


def test_circular_schemas_are_listed_and_called(wire: Wire) -> None:
    wire.reset("recipe_box_1", 0)
    tools = {tool["name"]: tool for tool in wire.tools()}
    text = json.dumps(list(tools.values()))
    assert "$ref" not in text
    assert "$defs" not in text
    assert all(tool["input_schema"]["type"] == "object" for tool in tools.values())
    assert tools["create_menu"]["input_schema"]["properties"]["sections"]["type"] == "array"
    nested = {"title": "Starters", "recipe_ids": [1], "sections": [{"title": "Cold", "sections": [{"title": "Vegan"}]}]}
    assert wire.value("create_menu", title="Brunch", sections=[nested])["rows"] == 5
    refused = wire.seen("create_menu", title="Brunch", sections=[{"title": 3}])
    assert refused["reward_type"] == "invalid_args"
    assert "sections" in refused["error"]
    threads = wire.value("list_comments", recipe_id=1)
    assert all(isinstance(thread["replies"], list) for thread in threads)


def test_a_frame_over_the_limit_ends_the_connection_and_not_the_server(server: Server) -> None:
    with Wire(server.url) as session:
        session.reset("vet_clinic_1")
        session.send(json.dumps(step("list_pets", {"text": "x" * 5_000_000})))
        assert session.receive()["type"] == "observation"  # five megabytes are none of the server's worries
        assert session.tools()
    with Wire(server.url) as other:
        assert other.reset("vet_clinic_1")["num_tools"] == 25


def test_messages_sent_at_once_are_answered_in_order(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1")
    for number in range(1, 31):
        wire.send(step("get_product", {"product_id": number}) if number % 3 else "{nonsense")
    for number in range(1, 31):
        answer = wire.receive()
        if number % 3 == 0:
            assert answer["data"]["code"] == "INVALID_JSON"
        else:
            found = answer["data"]["observation"]
            assert found["tool_name"] == "get_product"
            if found["reward_type"] == "tool_call_ok":
                assert json.loads(found["tool_result"])["id"] == number
