"""JSON-RPC over `/mcp` and inside the WebSocket."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

TOY = "toy_notes_1"


def failed(answer: Any, code: int, request_id: Any = 1) -> str:
    assert set(answer) == {"jsonrpc", "id", "error"}
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", request_id)
    assert set(answer["error"]) == {"code", "message", "data"}
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    return str(answer["error"]["message"])


def result(answer: Any, request_id: Any = 1) -> Any:
    assert set(answer) == {"jsonrpc", "id", "result"}, answer
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", request_id)
    return answer["result"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{not json", -32700),
        (b"\xff\xfe\x00", -32700),
        ("[" * 100_000, -32700),
        ({}, -32600),
        ([], -32600),
        (None, -32600),
        ([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], -32600),
        ({"method": "x"}, -32600),
        ({"jsonrpc": "1.0", "method": "x"}, -32600),
        ({"jsonrpc": "2.0", "method": 5}, -32600),
        ({"jsonrpc": "2.0", "method": "x", "params": [1]}, -32600),
        ({"jsonrpc": "2.0", "method": "x", "id": 1.5}, -32600),
        ({"jsonrpc": "2.0", "method": "x", "extra": 1}, -32600),
    ],
)
def test_what_is_not_a_request(live: Any, body: Any, code: int) -> None:
    response = live.post("/mcp", body)
    assert response.status_code == 200
    failed(response.json(), code, None)


def test_unknown_methods_and_missing_sessions(live: Any) -> None:
    failed(live.rpc("nope", request_id="a"), -32601, "a")
    for method in ("tools/list", "tools/call", "openenv/session/close"):
        params = {"name": "echo"}
        failed(live.rpc(method, params), -32602)
        failed(live.rpc(method, {**params, "session_id": 5}), -32602)
        assert "nowhere" in failed(live.rpc(method, {**params, "session_id": "nowhere"}), -32602)
    assert len(live.registry) == 0


def test_a_body_over_the_limit_is_refused(serving: Callable[..., Any]) -> None:
    with serving(max_message_bytes=1024) as live:
        response = live.post("/mcp", "x" * 5000)
        assert response.status_code == 413
        failed(response.json(), -32600, None)


def test_a_session_over_http_with_a_websocket_attached_to_it(live: Any) -> None:
    session_id = result(live.rpc("openenv/session/create"))["session_id"]
    assert "reset" in failed(live.rpc("tools/list", {"session_id": session_id}), -32600)
    with live.client(f"?session_id={session_id}") as client:
        client.reset(scenario=TOY, task_idx=0)
        tools = result(live.rpc("tools/list", {"session_id": session_id}))["tools"]
        assert [set(tool) for tool in tools] == [{"name", "description", "inputSchema"}] * 11
        called = result(
            live.rpc("tools/call", {"session_id": session_id, "name": "add_note", "arguments": {"text": "buy milk"}})
        )
        assert called == {
            "content": [{"type": "text", "text": '{"id": 2}'}],
            "is_error": False,
            "data": {
                "reward_type": "tool_call_ok",
                "tool_name": "add_note",
                "tool_result": '{"id": 2}',
                "reward": 0.0,
                "done": False,
            },
        }
        assert "buy milk" in client.step("list_notes")["observation"]["tool_result"]
        assert client.state()["step_count"] == 3
    # the session outlives its WebSocket
    live.wait_for(lambda: not live.registry.get(session_id).attached)
    verified = result(live.rpc("tools/call", {"session_id": session_id, "name": "verify"}))
    assert (verified["data"]["reward_type"], verified["data"]["reward"], verified["is_error"]) == (
        "complete",
        1.0,
        False,
    )
    assert json.loads(verified["content"][0]["text"]) == verified["data"]
    missing = result(live.rpc("tools/call", {"session_id": session_id, "name": "nope"}))
    assert (missing["is_error"], missing["data"]["reward"]) == (True, -1.0)
    assert missing["content"][0]["text"] == missing["data"]["error"]
    ended = result(live.rpc("tools/call", {"session_id": session_id, "name": "done"}))
    assert (ended["data"]["reward_type"], ended["data"]["done"]) == ("episode_done", True)
    assert result(live.rpc("openenv/session/close", {"session_id": session_id})) == {
        "session_id": session_id,
        "closed": True,
    }
    failed(live.rpc("openenv/session/close", {"session_id": session_id}), -32602)
    assert len(live.registry) == 0


@pytest.mark.parametrize("params", [{}, {"name": ""}, {"name": 5}, {"name": "echo", "arguments": [1]}])
def test_a_call_without_name_or_arguments_of_the_right_type(live: Any, params: dict[str, Any]) -> None:
    session_id = result(live.rpc("openenv/session/create"))["session_id"]
    failed(live.rpc("tools/call", {"session_id": session_id, **params}), -32602)
    result(live.rpc("openenv/session/close", {"session_id": session_id}))
    assert len(live.registry) == 0


def test_a_session_is_served_by_one_websocket_and_closes_when_it_goes(live: Any) -> None:
    session_id = result(live.rpc("openenv/session/create"))["session_id"]
    with live.client(f"?session_id={session_id}") as client:
        client.reset(scenario=TOY)
        with live.client(f"?session_id={session_id}") as second:
            assert second.receive()["data"]["code"] == "SESSION_ERROR"
        closing = result(live.rpc("openenv/session/close", {"session_id": session_id}))
        assert closing == {"session_id": session_id, "closed": False, "closing": True}
        assert client.step("list_notes")["observation"]["reward_type"] == "tool_call_ok"
    live.wait_for(lambda: len(live.registry) == 0)
    with live.client(f"?session_id={session_id}") as late:
        answer = late.receive()
        assert (answer["type"], answer["data"]["code"]) == ("error", "SESSION_ERROR")


def test_a_kept_session_finishes_the_call_its_client_went_away_from(live: Any) -> None:
    session_id = result(live.rpc("openenv/session/create"))["session_id"]
    with live.client(f"?session_id={session_id}") as client:
        client.reset(scenario=TOY)
        client.send({"type": "step", "data": {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 1.5}}})
        client.send({"type": "step", "data": {"type": "call_tool", "tool_name": "never_read"}})
        live.wait_for(live.registry.get(session_id).lock.locked)
    live.wait_for(lambda: not live.registry.get(session_id).attached)
    with live.client(f"?session_id={session_id}") as client:
        assert client.state()["step_count"] == 1
        after = client.step("list_notes")["observation"]
        assert (after["reward_type"], after.get("warning")) == ("tool_call_ok", None)
    result(live.rpc("openenv/session/close", {"session_id": session_id}))
    assert live.log.messages == []


def test_sessions_over_http_count_against_capacity(serving: Callable[..., Any]) -> None:
    with serving(max_concurrent_envs=1) as live:
        session_id = result(live.rpc("openenv/session/create"))["session_id"]
        full = live.rpc("openenv/session/create")
        failed(full, -32000)
        assert full["error"]["data"] == {"active_sessions": 1, "max_sessions": 1}
        result(live.rpc("openenv/session/close", {"session_id": session_id}))
        result(live.rpc("openenv/session/create"))


def rpc_over(client: Any, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
    answer = client.ask({"type": "mcp", "data": body})
    assert set(answer) == {"type", "data"}
    assert answer["type"] == "mcp"
    return answer["data"]


def test_requests_inside_a_websocket_serve_its_own_session(live: Any) -> None:
    with live.client() as client:
        own = result(rpc_over(client, "openenv/session/create"), 5)["session_id"]
        assert live.registry.get(own).attached
        failed(rpc_over(client, "openenv/session/close", session_id=own), -32600, 5)
        failed(rpc_over(client, "tools/list"), -32600, 5)
        client.reset(scenario=TOY)
        assert len(result(rpc_over(client, "tools/list"), 5)["tools"]) == 11
        called = result(rpc_over(client, "tools/call", name="echo", arguments={"a": 1}), 5)
        assert called["data"]["tool_result"] == '{"a": 1}'
        assert result(rpc_over(client, "tools/call", name="echo", session_id=own), 5)["is_error"] is False
        failed(rpc_over(client, "tools/call", name="echo", session_id="another"), -32602, 5)
        failed(rpc_over(client, "nope"), -32601, 5)
        answer = client.ask({"type": "mcp", "data": {"method": "x"}})
        failed(answer["data"], -32600, None)
        assert client.state()["step_count"] == 3


def test_a_session_that_is_being_closed_is_there_for_nobody(live: Any) -> None:
    session_id = result(live.rpc("openenv/session/create"))["session_id"]
    with live.client(f"?session_id={session_id}") as client:
        client.reset(scenario=TOY)
    session = live.registry.get(session_id)
    live.wait_for(lambda: not session.attached)
    slow = {"session_id": session_id, "name": "slow", "arguments": {"seconds": 3}}
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(live.rpc, "tools/call", slow)
        live.wait_for(session.lock.locked)
        closing = pool.submit(live.rpc, "openenv/session/close", {"session_id": session_id})
        live.wait_for(lambda: session.ended is not None)
        with live.client(f"?session_id={session_id}") as late:
            assert late.receive()["data"]["code"] == "SESSION_ERROR"
        for method in ("tools/list", "tools/call", "openenv/session/close"):
            assert "closed" in failed(live.rpc(method, {"session_id": session_id, "name": "echo"}), -32602)
        assert result(calling.result(30))["is_error"] is False  # what had begun is finished
        assert result(closing.result(30))["closed"] is True
    assert (len(live.registry), live.world.provider.live) == (0, 0)


def test_a_call_that_waits_behind_the_closing_of_its_session_is_refused(live: Any) -> None:
    session_id = result(live.rpc("openenv/session/create"))["session_id"]
    with live.client(f"?session_id={session_id}") as client:
        client.reset(scenario=TOY)
    session = live.registry.get(session_id)
    live.wait_for(lambda: not session.attached)
    slow = {"session_id": session_id, "name": "slow", "arguments": {"seconds": 2.0}}
    with ThreadPoolExecutor() as pool:
        pool.submit(live.rpc, "tools/call", slow)
        live.wait_for(session.lock.locked)
        waiting = pool.submit(live.rpc, "tools/call", slow)
        live.wait_for(lambda: session.waiting == 1)
        closing = pool.submit(live.rpc, "openenv/session/close", {"session_id": session_id})
        assert "closed" in failed(waiting.result(30), -32602)
        assert result(closing.result(30))["closed"] is True
    assert live.world.provider.live == 0
