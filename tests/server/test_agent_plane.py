"""The agent plane over real sockets: what it answers to what is no request, its bounds, and what it never says."""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

import live as live_server
from e2e.agent import agent, plane, post, said
from gated import GatedProvider
from quintain.server.agent_plane import WAITING_REQUESTS, Refused, read_request
from quintain.server.agent_tokens import REQUESTS_AT_ONCE, AgentDoor, AgentTokens
from toy import ToyWorld

TOY = "toy_notes_1"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def rpc(live: Any, path: str, method: str, params: Any = None, **headers: str) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
    return raw(live, path, json.dumps(body), **headers)


def raw(live: Any, path: str, body: str | bytes, **headers: str) -> httpx.Response:
    return httpx.post(
        live.url + path, content=body, headers={**ACCEPT, **headers}, timeout=30, trust_env=False, verify=False
    )


def call(live: Any, path: str, name: str, **arguments: Any) -> Any:
    """The result of a call."""
    answer = rpc(live, path, "tools/call", {"name": name, "arguments": arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


@pytest.fixture
def episode(live: Any) -> Iterator[tuple[Any, str]]:
    """A trainer in an episode, and the path of its agent plane."""
    with live.client() as client:
        yield client, plane(client.reset(scenario=TOY)["observation"])


async def test_the_official_client_lists_and_calls(live: Any, episode: tuple[Any, str]) -> None:
    client, path = episode
    async with agent(live.url + path) as session:
        listed = (await session.list_tools()).tools
        assert [tool.name for tool in listed] == [tool["name"] for tool in client.list_tools()["observation"]["tools"]]
        assert (listed[1].description, listed[1].inputSchema["required"]) == ("The add_note tool", ["text"])
        added = await session.call_tool("add_note", {"text": "buy milk"})
        assert (said(added), added.isError) == ('{"id": 2}', False)
        for name, arguments, words in (
            ("add_note", {}, "422: field 'text' is required"),
            ("get_note", {"note_id": 9}, "404: Note not found"),
            ("boom", {}, "500: division by zero"),
            ("malformed", {}, "what is not an answer"),
            ("verify", {}, "no tool is called 'verify'"),
            ("done", {}, "no tool is called 'done'"),
            ("__list_scenarios__", {}, "no tool is called"),
        ):
            failed = await session.call_tool(name, arguments)
            assert failed.isError, name
            assert words in said(failed)
        await session.send_ping()
        capabilities = session.get_server_capabilities()
        assert capabilities is not None
        assert capabilities.model_dump(exclude_none=True) == {"tools": {"listChanged": False}}
        for absent in (session.list_resources, session.list_prompts, session.list_resource_templates):
            with pytest.raises(Exception, match="no method"):
                await absent()
    assert client.state()["step_count"] == 10  # a list on either plane and eight calls
    assert client.step("verify")["observation"]["reward_type"] == "no_verifier"


def test_what_a_plane_says_of_itself(live: Any, episode: tuple[Any, str]) -> None:
    answer = rpc(live, episode[1], "initialize", {"protocolVersion": "2025-06-18", "capabilities": {"x": 1}})
    assert answer.json() == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "tools", "version": "1"},
        },
    }
    assert set(answer.headers) == {"date", "server", "content-length", "content-type"}


def test_tools_with_reserved_names_can_be_called_here(live: Any) -> None:
    with live.client() as client:
        path = plane(client.reset(scenario="reserved_4")["observation"])
        assert call(live, path, "done", why="it is the scenario's own") == {
            "content": [{"type": "text", "text": '{"why": "it is the scenario\'s own"}'}],
            "isError": False,
        }
        assert client.step("echo")["observation"]["reward_type"] == "tool_call_ok"
        assert client.step("done")["observation"]["reward_type"] == "episode_done"
    assert raw(live, path, "{}").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{not json", 400, -32700),
        ("", 400, -32700),
        (b"\xff\xfe\x00", 400, -32700),
        ("[" * 100_000, 400, -32700),
        ('{"a":' * 100_000, 400, -32700),
        ("1" * 10_000, 400, -32700),
        ("null", 400, -32600),
        ("[]", 400, -32600),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', 400, -32600),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', 400, -32600),
        (json.dumps({"jsonrpc": "2.0", "id": "x" * 257, "method": "ping"}), 400, -32600),
        ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": 5}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": 1, "result": {}}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}', 400, -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', 200, -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}', 200, -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}}', 200, -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tasks/list"}', 200, -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}', 200, -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', 200, -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}', 200, -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": []}}', 200, -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', 200, -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": {}}}', 200, -32602),
    ],
)
def test_what_is_not_a_request(live: Any, episode: tuple[Any, str], body: str | bytes, status: int, code: int) -> None:
    client, path = episode
    answer = raw(live, path, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert set(answer.json()) == {"jsonrpc", "id", "error"}
    assert set(answer.json()["error"]) == {"code", "message"}
    assert len(answer.content) < 1000
    assert client.state()["step_count"] == 0
    assert live.log.messages == []


@pytest.mark.parametrize(
    "method", ["notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed", "verify"]
)
def test_notifications_are_taken_and_mean_nothing(live: Any, episode: tuple[Any, str], method: str) -> None:
    client, path = episode
    for params in ({}, {"requestId": 1}, {"requestId": []}, 5):
        answer = raw(live, path, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))
        assert (answer.status_code, answer.content) == (202, b"")
    assert client.state()["step_count"] == 0
    assert live.log.messages == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Accept": "application/json"}, 200),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
        ({"MCP-Protocol-Version": "2025-06-18"}, 200),
        ({"MCP-Session-Id": "anything"}, 200),
        ({"Authorization": "Bearer anything"}, 200),
        ({"Origin": "https://example.org"}, 403),
    ],
)
def test_headers(live: Any, episode: tuple[Any, str], headers: dict[str, str], status: int) -> None:
    answer = rpc(live, episode[1], "tools/list", **headers)
    assert answer.status_code == status
    assert "mcp-session-id" not in answer.headers
    assert live.log.messages == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_only_posts(live: Any, episode: tuple[Any, str], method: str) -> None:
    headers = {"Accept": "text/event-stream"}
    answer = httpx.request(method, live.url + episode[1], headers=headers, timeout=10, trust_env=False, verify=False)
    assert (answer.status_code, answer.headers["allow"], answer.content) == (405, "POST", b"")


def test_numbers_that_json_does_not_have_are_the_agents_mistake_on_either_plane(
    live: Any, episode: tuple[Any, str]
) -> None:
    client, path = episode
    told = client.step("echo", x=float("nan"))["observation"]
    body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"x": NaN}}}'
    result = raw(live, path, body).json()["result"]
    assert (told["reward_type"], result["isError"]) == ("invalid_args", True)
    assert result["content"][0]["text"] == told["error"]
    assert client.state()["step_count"] == 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


NAMES = (st.sampled_from(["echo", "get_note", "shout"]) | st.text(max_size=600)).filter(
    lambda name: name not in ("verify", "done", "__list_scenarios__", "add_note", "tick", "slow", "die")
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, arguments=st.dictionaries(st.text(max_size=8).filter("link".__ne__), VALUES, max_size=4))
def test_both_planes_answer_alike(episode: tuple[Any, str], live: Any, name: str, arguments: dict[str, Any]) -> None:
    client, path = episode
    action = {"type": "call_tool", "tool_name": name, "arguments": arguments}
    told = client.ask({"type": "step", "data": action})["data"]["observation"]
    result = rpc(live, path, "tools/call", {"name": name, "arguments": arguments}).json()["result"]
    assert result["isError"] is ("error" in told)
    assert result["content"] == [{"type": "text", "text": told.get("error") or told.get("tool_result")}]


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_a_request_or_refused(body: bytes) -> None:
    refusal, request = None, None
    try:
        request = read_request(body)
    except Refused as refused:
        refusal = refused.response
    if refusal is None:
        assert request is None or set(request) == {"jsonrpc", "id", "method", "params"}
    else:
        assert 200 <= refusal.status_code < 500
        assert json.loads(bytes(refusal.body))["error"]["code"] in (-32700, -32600, -32601, -32602)


REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1"])},
    optional={
        "id": st.integers() | st.text(max_size=5) | VALUES,
        "method": st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "verify", 5]),
        "params": st.fixed_dictionaries({}, optional={"name": VALUES, "arguments": VALUES, "protocolVersion": VALUES})
        | VALUES,
        "extra": VALUES,
    },
)


@given(REQUESTS)
def test_a_request_that_is_let_through_has_what_its_method_needs(message: dict[str, Any]) -> None:
    try:
        request = read_request(json.dumps(message).encode())
    except Refused:
        return
    if request is None:
        assert "id" not in message
        return
    assert type(request["id"]) in (int, str)
    needed = {
        "initialize": {"protocolVersion", "capabilities", "clientInfo"},
        "ping": set(),
        "tools/list": set(),
        "tools/call": {"name", "arguments"},
    }[request["method"]]
    assert set(request["params"]) == needed
    if request["method"] == "tools/call":
        assert isinstance(request["params"]["name"], str)
        assert isinstance(request["params"]["arguments"], dict)


def test_a_body_over_the_limit_is_refused(serving: Callable[..., Any]) -> None:
    with serving(max_agent_message_bytes=2048) as live, live.client() as client:
        path = plane(client.reset(scenario=TOY)["observation"])
        assert call(live, path, "echo", text="x" * 1500)["isError"] is False
        answer = raw(live, path, "x" * 3000)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, -32600)
        assert call(live, path, "echo", text="x" * 1500)["isError"] is False  # what was refused is held no more
        slow = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(3)]
        for one in slow:  # bodies that do not end count together
            one.sendall(post(path, b"", **{"Content-Length": "1000"}) + b"x" * 900)
        answers = [one for one in slow if _answered(one)]
        assert len(answers) == 1
        assert b" 413 " in answers[0].recv(1000)
        for one in slow:
            one.close()
        live.wait_for(lambda: _allowed(live, path))


def _answered(one: socket.socket) -> bool:
    one.settimeout(0.5)
    try:
        return bool(one.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False


def _allowed(live: Any, path: str) -> bool:
    return (
        raw(live, path, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "x" * 1500})).status_code == 200
    )


def test_a_body_that_does_not_come_is_not_waited_for(serving: Callable[..., Any]) -> None:
    with serving(ping_timeout_s=0.4) as live, live.client() as client:
        path = plane(client.reset(scenario=TOY)["observation"])
        with socket.create_connection(("127.0.0.1", live.port)) as slow:
            slow.sendall(post(path, b"", **{"Content-Length": "1000"}) + b"{")
            slow.settimeout(10)
            assert b" 408 " in slow.recv(1000)


def test_requests_beyond_those_that_may_wait_are_refused(live: Any, episode: tuple[Any, str]) -> None:
    client, path = episode
    begun = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(WAITING_REQUESTS)]
    granted = live.registry.agents.find(path.split("/")[2])
    try:
        for one in begun:
            one.sendall(post(path, b"", **{"Content-Length": "1000"}))
        live.wait_for(lambda: granted.requests == WAITING_REQUESTS)
        answer = rpc(live, path, "ping")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, -32000)
        assert client.step("list_notes")["observation"]["reward_type"] == "tool_call_ok"
        for one in begun[: WAITING_REQUESTS - REQUESTS_AT_ONCE + 1]:
            one.close()
        live.wait_for(lambda: granted.requests <= REQUESTS_AT_ONCE)
        assert rpc(live, path, "ping").status_code == 200
    finally:
        for one in begun:
            one.close()
    live.wait_for(lambda: granted.requests == 0 and granted.held_bytes == 0)


def test_the_calls_of_an_episode_are_made_one_at_a_time(live: Any, episode: tuple[Any, str]) -> None:
    client, path = episode
    with ThreadPoolExecutor(8) as pool:
        started = time.monotonic()
        napping = [pool.submit(call, live, path, "slow", seconds=0.2) for _ in range(4)]
        ticks = [pool.submit(call, live, path, "tick") for _ in range(4)]
        mine = client.step("tick")["observation"]["tool_result"]
        assert all(nap.result()["content"][0]["text"] == '"awake"' for nap in napping)
        assert time.monotonic() - started >= 0.8
        seen = [json.loads(tick.result()["content"][0]["text"]) for tick in ticks] + [json.loads(mine)]
    assert sorted(tick["ticks"] for tick in seen) == [1, 2, 3, 4, 5]
    assert client.state()["step_count"] == 9


def test_a_call_is_finished_though_its_client_has_gone_and_those_behind_it_are_dropped(
    live: Any, episode: tuple[Any, str]
) -> None:
    client, path = episode
    session = live.registry.agents.find(path.split("/")[2]).holder
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow", "arguments": {"seconds": 2}}}
    ).encode()
    note = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add_note", "arguments": {"text": "no"}}}
    ).encode()
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", live.port)) as first:
        first.sendall(post(path, body))
        live.wait_for(session.lock.locked)
        with socket.create_connection(("127.0.0.1", live.port)) as second:
            second.sendall(post(path, note))
            live.wait_for(lambda: session.waiting == 1)
        live.wait_for(lambda: session.waiting == 0)
    after = client.step("list_notes")["observation"]
    assert time.monotonic() - started >= 2
    assert (json.loads(after["tool_result"]), after.get("warning")) == ([[1, "water plants"]], None)
    assert client.state()["step_count"] == 2  # the one that slept, and this
    assert live.log.messages == []


def test_a_trainer_that_goes_takes_the_agents_call_with_it(live: Any) -> None:
    with ThreadPoolExecutor(2) as pool:
        with live.client() as client:
            path = plane(client.reset(scenario=TOY)["observation"])
            session = live.registry.agents.find(path.split("/")[2]).holder
            calling = pool.submit(rpc, live, path, "tools/call", {"name": "slow", "arguments": {"seconds": 60}})
            live.wait_for(session.lock.locked)
            waiting = pool.submit(rpc, live, path, "tools/call", {"name": "list_notes"})
            live.wait_for(lambda: session.waiting == 1)
            started = time.monotonic()
        for answer in (calling.result(30), waiting.result(30)):
            assert (answer.status_code, answer.text) == (404, "Not Found")
        live.wait_for(lambda: len(live.registry) == 0)
        assert time.monotonic() - started < 30
    assert live.log.messages == []


def test_a_call_that_waits_behind_the_end_of_its_episode_finds_nothing(live: Any, episode: tuple[Any, str]) -> None:
    client, path = episode
    session = live.registry.agents.find(path.split("/")[2]).holder
    with ThreadPoolExecutor(2) as pool:
        for message in (
            {"type": "reset", "data": {"scenario": TOY}},
            {"type": "step", "data": {"type": "call_tool", "tool_name": "done"}},
        ):
            calling = pool.submit(rpc, live, path, "tools/call", {"name": "slow", "arguments": {"seconds": 1.5}})
            live.wait_for(session.lock.locked)
            client.send(message)
            live.wait_for(lambda: session.waiting == 1)
            behind = pool.submit(rpc, live, path, "tools/call", {"name": "add_note", "arguments": {"text": "late"}})
            assert calling.result(10).json()["result"]["isError"] is False  # it came first
            answer = behind.result(10)
            assert (answer.status_code, answer.text) == (404, "Not Found")
            observation = client.receive()["data"]["observation"]
            path = observation.get("metadata", {}).get("agent_plane", {}).get("path", "")
    assert len(live.registry.agents) == 0


def test_with_a_token_an_agent_needs_its_own_and_it_opens_nothing_else(serving: Callable[..., Any]) -> None:
    with serving(token=SecretStr("t-1")) as live:
        bearer = {"Authorization": "Bearer t-1"}
        with live.client(additional_headers=bearer) as client:
            path = plane(client.reset(scenario=TOY)["observation"])
            token = path.split("/")[2]
            assert rpc(live, path, "tools/list").status_code == 200
            for headers in ({}, bearer, {"Authorization": f"Bearer {token}"}):
                for address in ("/agent/t-1/mcp", "/agent//mcp", f"/agent/{'A' * 43}/mcp"):
                    answer = rpc(live, address, "tools/list", **headers)
                    assert (answer.status_code, answer.text) == (404, "Not Found")
            live.headers = {"Authorization": f"Bearer {token}"}
            for address in ("/stats", "/metadata", "/schema", "/state", "/openapi.json", "/agent", path[1:]):
                assert live.get("/" + address.lstrip("/")).status_code in (401, 405), address
            assert live.post("/mcp", {}).status_code == 401
            with pytest.raises(Exception, match="403"), live.client(additional_headers=live.headers):
                pass
            with pytest.raises(Exception, match="403"), live.client(query="/../.." + path):
                pass


def test_the_document_of_the_routes_does_not_name_it(live: Any) -> None:
    assert "agent" not in live.get("/openapi.json").text


def test_tokens_are_good_from_issue_to_revocation() -> None:
    tokens: AgentTokens[str] = AgentTokens()
    door, other = AgentDoor(tokens, "one"), AgentDoor(tokens, "two")
    first, beside = door.open(), other.open()
    assert first != beside
    assert (len(first), first.isascii()) == (43, True)
    granted = tokens.find(first)
    assert granted is not None
    assert (granted.holder, granted.ended.is_set()) == ("one", False)
    second = door.open()
    assert granted.ended.is_set()
    assert tokens.find(first) is None
    assert tokens.find(second) is not None
    for near in ("", first, second[:-1], second + "A", second.swapcase(), "\ud800", "x" * 10**6):
        assert tokens.find(near) is None
    door.shut()
    door.shut()
    assert (tokens.find(second), len(tokens)) == (None, 1)
    assert repr(tokens).find(beside) < 0
    assert beside not in str(vars(tokens))


def test_a_fault_of_the_platform_reads_neutrally(tmp_path: Path) -> None:
    provider = GatedProvider(tmp_path / "instances")
    world = ToyWorld(tmp_path, provider)
    with live_server.serving(world, tmp_path / "kept") as live, live.client() as client:
        path = plane(client.reset(scenario=TOY, task_idx=0)["observation"])
        assert "ended without answering" in call(live, path, "die")["content"][0]["text"]
        provider.no_room = True
        failed = call(live, path, "list_notes")
        assert failed == {
            "content": [{"type": "text", "text": "the environment could not answer; the call may be tried again"}],
            "isError": True,
        }
        told = client.step("list_notes")["observation"]
        assert told["metadata"] == {"failure_owner": "infrastructure", "reward_valid": False}
        provider.no_room = False
        assert call(live, path, "list_notes")["isError"] is False


async def test_many_agents_leave_no_task_behind(live: Any, episode: tuple[Any, str]) -> None:
    path = episode[1]
    loop = next(iter(live.server.servers)).get_loop()

    def tasks() -> int:
        return len(asyncio.all_tasks(loop))

    rpc(live, path, "ping")
    before = tasks()
    for _ in range(20):
        async with agent(live.url + path) as session:
            await session.call_tool("list_notes", {})
    await asyncio.to_thread(live.wait_for, lambda: tasks() <= before)
