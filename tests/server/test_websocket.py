"""The WebSocket: every kind of bad message, order, clients that go away, capacity."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

TOY = "toy_notes_1"


def error(answer: Any, code: str) -> Any:
    assert set(answer) == {"type", "data"}
    assert answer["type"] == "error"
    assert answer["data"]["code"] == code
    assert answer["data"]["message"]
    return answer["data"]


BAD = [
    ("{not json", "INVALID_JSON"),
    ("", "INVALID_JSON"),
    ("\u2028", "INVALID_JSON"),
    ('{"type": "state"', "INVALID_JSON"),
    ("[" * 100_000, "INVALID_JSON"),
    ('{"type": "step", "data": ' + '{"a":' * 50_000, "INVALID_JSON"),
    ('{"type": "state", "n": ' + "9" * 10_000 + "}", "INVALID_JSON"),
    ('{"type": "state", "n": [' + "[]," * 300_000 + "0]}", "INVALID_JSON"),
    (b'{"type": "state"}', "INVALID_JSON"),
    (b"\x89PNG\r\n\x1a\n\x00", "INVALID_JSON"),
    ("[1]", "VALIDATION_ERROR"),
    ("null", "VALIDATION_ERROR"),
    ('"reset"', "VALIDATION_ERROR"),
    ("NaN", "VALIDATION_ERROR"),
    ({}, "UNKNOWN_TYPE"),
    ({"type": "dance"}, "UNKNOWN_TYPE"),
    ({"type": 5}, "UNKNOWN_TYPE"),
    ({"type": ["reset"]}, "UNKNOWN_TYPE"),
    ({"type": "dance " + "x" * 1_000_000}, "UNKNOWN_TYPE"),
    ({"type": "step"}, "VALIDATION_ERROR"),
    ({"type": "step", "data": None}, "VALIDATION_ERROR"),
    ({"type": "step", "data": [1]}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": "toy"}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {}, "extra": 1}, "VALIDATION_ERROR"),
    ({"type": "state", "data": {}}, "VALIDATION_ERROR"),
    ({"type": "mcp"}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "dance"}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "call_tool"}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "call_tool", "tool_name": 5}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "call_tool", "tool_name": "x", "arguments": [1]}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "call_tool", "tool_name": "x", "colour": "blue"}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "list_tools", "tool_name": "x"}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"type": "call_tool", "arguments": {"x": float("nan")}}}, "VALIDATION_ERROR"),
]


@pytest.mark.parametrize(("message", "code"), BAD, ids=range(len(BAD)))
def test_a_bad_message_is_answered_and_the_session_goes_on(live: Any, message: Any, code: str) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        error(client.ask(message), code)
        assert client.state()["step_count"] == 0
        assert client.step("list_notes")["observation"]["reward_type"] == "tool_call_ok"
    assert live.log.messages == []


def test_validation_errors_say_where(live: Any) -> None:
    with live.client() as client:
        data = error(client.ask({"type": "step"}), "VALIDATION_ERROR")
        assert data["errors"] == [
            {"type": "missing", "loc": ["data"], "msg": "Field required", "input": {"type": "step"}}
        ]
        data = error(client.ask({"type": "step", "data": {"type": "call_tool"}}), "VALIDATION_ERROR")
        assert data["errors"][0]["loc"] == ["call_tool", "tool_name"]
        large = {"type": "call_tool", "tool_name": 5, "arguments": {"x": "y" * 10_000}, "nope": "z" * 100_000}
        answer = client.ask({"type": "step", "data": large})
        assert len(json.dumps(answer)) < 5_000


def test_a_message_of_many_megabytes_is_read_and_one_over_the_limit_ends_the_connection(
    serving: Callable[..., Any],
) -> None:
    with serving(max_message_bytes=8 * 2**20) as live:
        with live.client() as client:
            client.reset(scenario=TOY)
            echoed = client.step("echo", text="x" * (5 * 2**20))
            assert len(echoed["observation"]["tool_result"]) > 5 * 2**20
        with live.client() as client:
            client.reset(scenario=TOY)
            # The frame's head alone: a client still sending its body may be reset before it reads why.
            client.connection.socket.sendall(struct.pack(">BBQ", 0x81, 0xFF, 9 * 2**20) + bytes(4))
            with pytest.raises(ConnectionClosed) as caught:
                client.connection.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1009
        live.wait_for(lambda: len(live.registry) == 0)
        assert live.log.messages == []


def test_outgoing_json_is_ascii_whatever_the_text(live: Any) -> None:
    text = 'line\u2028separator \U0001f98a ключ {"nested": "\\u2029"}'
    with live.client() as client:
        client.reset(scenario=TOY)
        client.send(
            {"type": "step", "data": {"type": "call_tool", "tool_name": "add_note", "arguments": {"text": text}}}
        )
        assert client.connection.recv().isascii()
        client.send({"type": "step", "data": {"type": "call_tool", "tool_name": "list_notes"}})
        raw = client.connection.recv()
        assert raw.isascii()
        assert json.loads(json.loads(raw)["data"]["observation"]["tool_result"])[-1][1] == text


def test_messages_sent_ahead_are_answered_in_order(live: Any) -> None:
    with live.client() as client:
        client.send({"type": "reset", "data": {"scenario": TOY}})
        for number in range(40):
            tool = "slow" if number == 3 else "echo"
            arguments = {"seconds": 0.3, "n": number} if tool == "slow" else {"n": number}
            client.send({"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}})
        client.send("{bad")
        client.send({"type": "state"})
        assert client.receive()["data"]["observation"]["reward_type"] == "reset_ok"
        results = [client.receive()["data"]["observation"]["tool_result"] for _ in range(40)]
        assert results == ['"awake"' if n == 3 else json.dumps({"n": n}) for n in range(40)]
        error(client.receive(), "INVALID_JSON")
        assert client.receive()["data"]["step_count"] == 40


def test_a_close_message_ends_the_session_after_what_came_before_it(live: Any) -> None:
    with live.client() as client:
        client.send({"type": "reset", "data": {"scenario": TOY}})
        client.send({"type": "close"})
        assert client.receive()["data"]["observation"]["reward_type"] == "reset_ok"
        with pytest.raises(ConnectionClosed) as caught:
            client.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000
    live.wait_for(lambda: len(live.registry) == 0)
    assert live.world.provider.live == 0
    assert live.log.messages == []


def test_a_client_that_goes_away_in_mid_call_gives_its_slot_and_sandbox_back_at_once(
    serving: Callable[..., Any],
) -> None:
    with serving(max_concurrent_envs=1) as live:
        with live.client() as client:
            client.reset(scenario=TOY)
            client.send(
                {"type": "step", "data": {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 60}}}
            )
            (session,) = live.registry
            live.wait_for(session.lock.locked)
            assert live.world.provider.live == 1
            left = time.monotonic()
        live.wait_for(lambda: len(live.registry) == 0 and live.world.provider.live == 0)
        assert time.monotonic() - left < 2
        with live.client() as client:
            assert client.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok"
        assert live.log.messages == []


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("ending", [socket.SHUT_WR, socket.SHUT_RDWR, None])
def test_what_a_client_that_has_gone_sent_ahead_is_dropped(live: Any, ending: int | None, kept: bool) -> None:
    query = f"?session_id={live.rpc('openenv/session/create')['result']['session_id']}" if kept else ""
    slow = {"type": "step", "data": {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 1.0}}}
    with live.client(query) as client:
        client.reset(scenario=TOY)
        (session,) = live.registry
        for _ in range(60):
            client.send(slow)
        live.wait_for(session.lock.locked)
        if ending is None:
            client.connection.close_socket()
        else:
            client.connection.socket.shutdown(ending)
        # looking for its end takes half a second, the call of a kept session another
        live.wait_for(lambda: not session.attached if kept else len(live.registry) == 0)
    assert session.awm.state.step_count <= 3
    if kept:
        live.rpc("openenv/session/close", {"session_id": session.id})
    live.wait_for(lambda: live.world.provider.live == 0)
    assert live.log.messages == []


def test_a_connection_cut_without_a_word_gives_its_slot_back_too(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        client.connection.socket.shutdown(socket.SHUT_RDWR)
        live.wait_for(lambda: len(live.registry) == 0 and live.world.provider.live == 0)
    assert live.log.messages == []


def test_a_client_that_goes_away_during_a_reset_leaves_nothing(live: Any) -> None:
    for _ in range(5):
        with live.client() as client:
            client.send({"type": "reset", "data": {"scenario": TOY}})
    live.wait_for(lambda: len(live.registry) == 0 and live.world.provider.live == 0)
    assert live.log.messages == []


def test_a_hundred_clean_closes_leave_no_line_in_the_log(live: Any) -> None:
    for number in range(100):
        with live.client() as client:
            if number % 3 == 0:
                client.reset(scenario=TOY)
            if number % 3 == 1:
                client.state()
            if number % 2 == 0:
                client.send({"type": "close"})
    live.wait_for(lambda: len(live.registry) == 0)
    assert live.log.messages == []


def test_one_session_too_many_is_told_so_and_the_slot_comes_back(serving: Callable[..., Any]) -> None:
    with serving(max_concurrent_envs=2) as live, live.client() as first:
        with live.client(), live.client() as third:
            data = error(third.receive(), "CAPACITY_REACHED")
            assert (data["active_sessions"], data["max_sessions"]) == (2, 2)
            with pytest.raises(ConnectionClosed):
                third.receive()
        live.wait_for(lambda: len(live.registry) == 1)
        with live.client() as again:
            assert again.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok"
        assert first.state()["step_count"] == 0


def test_sessions_on_one_scenario_do_not_see_each_others_rows(live: Any) -> None:
    seen: dict[int, str] = {}

    def play(number: int) -> None:
        with live.client() as client:
            client.reset(scenario=TOY, task_idx=0)
            for _ in range(5):
                client.step("add_note", text=f"note of {number}")
            seen[number] = client.step("list_notes")["observation"]["tool_result"]

    threads = [threading.Thread(target=play, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(seen) == list(range(12))
    for number, notes in seen.items():
        assert [text for _, text in json.loads(notes)] == ["water plants", *[f"note of {number}"] * 5]


def test_a_bug_in_the_server_is_an_execution_error_and_a_traceback_in_the_log(serving: Callable[..., Any]) -> None:
    with serving() as live, live.client() as client:
        live.world.source.scenarios = lambda: 1 / 0
        error(
            client.ask({"type": "step", "data": {"type": "call_tool", "tool_name": "__list_scenarios__"}}),
            "EXECUTION_ERROR",
        )
        assert client.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok"
        assert ["ZeroDivisionError" in message for message in live.log.messages] == [True]


def test_the_server_can_be_stopped_while_clients_are_in_the_middle(serving: Callable[..., Any]) -> None:
    with serving() as live:
        clients = [live.client() for _ in range(3)]
        opened = [client.__enter__() for client in clients]
        for client in opened:
            client.reset(scenario=TOY)
        opened[0].send(
            {"type": "step", "data": {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 4}}}
        )
        time.sleep(0.1)
    # the fixture has checked that nothing is left
    for client in opened:
        with pytest.raises(ConnectionClosed):
            client.receive()
    for manager in clients:
        manager.__exit__(None, None, None)
    assert live.log.messages == []
