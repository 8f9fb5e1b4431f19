"""An agent on its own plane, as the official MCP client speaks, and a proxy that keeps every byte that passes."""

import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent


def plane(observation: dict[str, Any]) -> str:
    """Path of the agent plane that a reset's observation names."""
    path: str = observation["metadata"]["agent_plane"]["path"]
    return path


@asynccontextmanager
async def agent(url: str) -> AsyncIterator[ClientSession]:
    """An agent that has introduced itself."""
    async with (
        httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as client,
        streamable_http_client(url, http_client=client) as (reading, writing, session_id),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        assert session_id() is None
        yield session


def said(result: CallToolResult) -> str:
    """The text of a call's result, which has that and nothing else."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert (result.structuredContent, result.meta, content.annotations, content.meta) == (None, None, None, None)
    return content.text


class Recorder:
    """A TCP proxy in front of a server. `sent` is what clients sent, `received` what they were sent, by connection."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._sent: list[bytearray] = []
        self._received: list[bytearray] = []
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def sent(self) -> bytes:
        """Every byte that clients sent."""
        return b"\n".join(map(bytes, self._sent))

    @property
    def received(self) -> bytes:
        """Every byte that clients were sent."""
        return b"\n".join(map(bytes, self._received))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, server]
            for source, sink, kept in ((client, server, self._sent), (server, client, self._received)):
                kept.append(bytearray())
                pump = threading.Thread(target=_pump, args=(source, sink, kept[-1]))
                pump.start()
                self._threads.append(pump)

    def close(self) -> None:
        """Cut every connection and listen no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            kept += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def recording(port: int) -> Iterator[Recorder]:
    """A recorder in front of a server's port."""
    recorder = Recorder(port)
    try:
        yield recorder
    finally:
        recorder.close()


def post(path: str, body: bytes, **headers: str) -> bytes:
    """The bytes of a request that calls or asks something."""
    lines = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body
