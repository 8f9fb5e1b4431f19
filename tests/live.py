"""A real server on loopback in a thread, over the toy world."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from websockets.sync.client import ClientConnection, connect

from quintain.server.app import create_app, uvicorn_config
from quintain.server.recording import Recording
from quintain.server.sessions import SessionRegistry
from quintain.server.settings import Settings
from quintain.tasks.registry import TaskRegistry


class Records(logging.Handler):
    """Keeps what was logged at warning or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@dataclass
class Client:
    """A WebSocket client that sends and receives messages."""

    connection: ClientConnection

    def send(self, message: Any) -> None:
        self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def receive(self) -> Any:
        return json.loads(self.connection.recv(timeout=20))

    def ask(self, message: Any) -> Any:
        self.send(message)
        return self.receive()

    def reset(self, **data: Any) -> Any:
        return self.ask({"type": "reset", "data": data})["data"]

    def step(self, tool: str, metadata: dict[str, Any] | None = None, **arguments: Any) -> Any:
        data = {"type": "call_tool", "tool_name": tool, "arguments": arguments, "metadata": metadata or {}}
        return self.ask({"type": "step", "data": data})["data"]

    def list_tools(self) -> Any:
        return self.ask({"type": "step", "data": {"type": "list_tools"}})["data"]

    def state(self) -> Any:
        return self.ask({"type": "state"})["data"]


@dataclass
class Live:
    """A running server."""

    world: Any
    registry: SessionRegistry
    port: int
    log: Records
    keep_dir: Path
    server: uvicorn.Server
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def client(self, query: str = "", **options: Any) -> Iterator[Client]:
        url = f"ws://127.0.0.1:{self.port}/ws{query}"
        with connect(url, proxy=None, max_size=None, compression=None, **options) as connection:
            yield Client(connection)

    # Without `verify=False` each request would read every certificate of the host, for nothing: 30 ms of a processor.

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=20, trust_env=False, verify=False, headers=self.headers)

    def post(self, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, str | bytes) else json.dumps(body)
        return httpx.post(
            self.url + path, content=content, timeout=20, trust_env=False, verify=False, headers=self.headers
        )

    def rpc(self, method: str, params: Any = None, request_id: Any = 1) -> Any:
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
        return self.post("/mcp", body).json()

    def wait_for(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until something holds on the server; fail when it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come to hold in time"
            time.sleep(0.01)


@contextmanager
def serving(
    world: Any,
    keep_dir: Path,
    tasks: TaskRegistry | None = None,
    recording: Recording | None = None,
    **options: Any,
) -> Iterator[Live]:
    """A running server over a toy world, which must shut down cleanly and leave nothing."""
    settings = Settings(keep_dir=keep_dir, **options)
    app = create_app(settings, world.rooms, [world.provider.close], tasks=tasks, recording=recording)
    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn_config(settings, app))
    log = Records()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "quintain", "asyncio")]
    for logger in loggers:
        logger.addHandler(log)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    live = Live(world, app.state.registry, sock.getsockname()[1], log, keep_dir, server)
    try:
        live.wait_for(lambda: server.started, 10)
        yield live
    finally:
        server.should_exit = True
        thread.join(20)
        for logger in loggers:
            logger.removeHandler(log)
        sock.close()
    assert not thread.is_alive()
    assert world.provider.live == 0
    assert world.leftovers == []
