"""Clients that do not read, and clients whose pong cannot be seen yet, without the kernel's help."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

TOY = "toy_notes_1"
SIZE = 9 * 2**20


@contextmanager
def deaf(port: int) -> Iterator[socket.socket]:
    """A connection with an episode that has asked for a large answer and does not read it."""
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        raw.settimeout(20)
        raw.connect(("127.0.0.1", port))
        raw.sendall(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert b" 101 " in raw.recv(4096)
        raw.sendall(frame({"type": "reset", "data": {"scenario": TOY}}))
        assert b"reset_ok" in raw.recv(65536)
        raw.sendall(frame(call("large", size=SIZE)))
        yield raw


def call(tool: str, **arguments: Any) -> Any:
    return {"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}}


def frame(message: Any) -> bytes:
    body = json.dumps(message).encode()
    assert len(body) < 2**16
    return b"\x81\xfe" + len(body).to_bytes(2, "big") + b"\0\0\0\0" + body


def drained(raw: socket.socket) -> int:
    """How much of the answer was there still, when the connection has ended."""
    total = 0
    try:
        while part := raw.recv(2**20):
            total += len(part)
    except ConnectionResetError:
        pass
    return total


@pytest.mark.parametrize("goodbye", [False, True])
def test_a_client_that_does_not_read_is_cut_off(serving: Callable[..., Any], goodbye: bool) -> None:
    with serving(ping_interval_s=0.2, ping_timeout_s=1.5) as live:
        with deaf(live.port) as raw:
            if goodbye:
                raw.sendall(frame({"type": "close"}))
            live.wait_for(lambda: len(live.registry) == 0, 10)
            live.wait_for(lambda: not connections(live), 10)
            assert drained(raw) < SIZE  # a transport that is merely closed would have waited for it
        assert live.log.messages == []


def connections(live: Any) -> set[Any]:
    """Connections that the server holds."""
    held: set[Any] = live.server.server_state.connections
    return held


def test_a_client_that_reads_late_loses_nothing(serving: Callable[..., Any]) -> None:
    with serving(ping_interval_s=0.2, ping_timeout_s=8.0) as live, deaf(live.port) as raw:
        live.wait_for(lambda: live.get("/stats").json()["max_idle_s"] >= 1.5)
        raw.sendall(frame({"type": "close"}))
        assert drained(raw) > SIZE


def test_a_pong_behind_messages_that_wait_their_turn_is_waited_for(serving: Callable[..., Any]) -> None:
    with serving(ping_interval_s=0.2, ping_timeout_s=0.5) as live, live.client() as client:
        client.reset(scenario=TOY)
        client.send(call("slow", seconds=2))
        for number in range(40):
            client.send(call("echo", n=number))
        assert client.receive()["data"]["observation"]["tool_result"] == '"awake"'
        answers = [json.loads(client.receive()["data"]["observation"]["tool_result"])["n"] for _ in range(40)]
        assert answers == list(range(40))
        assert live.log.messages == []
