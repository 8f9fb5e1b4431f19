"""An OpenAI-compatible endpoint on loopback that answers truthfully or misbehaves, as a test scripts it.

It speaks HTTP over a plain socket, so that it can also break the protocol.
"""

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

MODEL = "judge-1"


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        content = self.body["messages"][-1]["content"]
        assert isinstance(content, str)
        return content

    @property
    def nonce(self) -> str:
        found = re.match(r"The case is (\w+)\.", self.prompt)
        assert found is not None
        return found[1]

    @property
    def task(self) -> Any:
        return self._fenced("TASK")

    @property
    def data(self) -> Any:
        return self._fenced("DATA")

    def _fenced(self, name: str) -> Any:
        lines = self.prompt.split("\n")
        begin, end = lines.index(f"{name} {self.nonce}"), lines.index(f"END {name} {self.nonce}")
        assert end == begin + 2, "a document is one line"
        return json.loads(lines[begin + 1])


Behaviour = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def answer(classification: str = "complete", confidence: float = 0.9, *reasons: str) -> Callable[[Asked], str]:
    """What a model writes that does as it is told."""

    def text(asked: Asked) -> str:
        told = {"case": asked.nonce, "reasons": list(reasons), "classification": classification}
        return json.dumps({**told, "confidence": confidence})

    return text


def completion(text: str | None, *, model: str = MODEL, finish: str = "stop", **message: Any) -> bytes:
    """The body of a chat completion."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return json.dumps({"object": "chat.completion", "model": model, "choices": [choice]}).encode()


def respond(status: int, body: bytes | str, **headers: str) -> Behaviour:
    """Any response."""
    data = body if isinstance(body, bytes) else body.encode()

    async def behave(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, len(data), **headers) + data)

    return behave


def says(text: Callable[[Asked], str] | str, **options: Any) -> Behaviour:
    """A completion with this text."""

    async def behave(asked: Asked, writer: asyncio.StreamWriter) -> None:
        data = completion(text if isinstance(text, str) else text(asked), **options)
        writer.write(head(200, len(data)) + data)

    return behave


def head(status: int, length: int, **headers: str) -> bytes:
    lines = {"content-type": "application/json", "content-length": str(length), "connection": "close"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    return (f"HTTP/1.1 {status} Said\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode()


async def hang(_: Asked, writer: asyncio.StreamWriter) -> None:
    """Takes the request and says nothing."""
    await asyncio.sleep(60)


async def drip(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A byte every 20 ms, so that no read ever times out."""
    data = completion(answer()(asked)) + b" " * 10_000
    writer.write(head(200, len(data)))
    for byte in data:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.02)


async def truncate(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Half of what its length promises."""
    data = completion(answer()(asked))
    writer.write(head(200, len(data)) + data[: len(data) // 2])


async def hang_up(_: Asked, writer: asyncio.StreamWriter) -> None:
    """Closes without a word."""


async def babble(_: Asked, writer: asyncio.StreamWriter) -> None:
    """What is no HTTP."""
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def flood(_: Asked, writer: asyncio.StreamWriter) -> None:
    """A body without end."""
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b" " * 65536)
            await writer.drain()


@dataclass
class JudgeServer:
    """`async with JudgeServer() as server`: requests are answered by `script` in turn, then by `otherwise`."""

    script: deque[Behaviour] = field(default_factory=deque)
    otherwise: Behaviour = field(default_factory=lambda: says(answer()))
    asked: list[Asked] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    at_once: int = 0
    most_at_once: int = 0
    port: int = 0
    url: str = ""

    def then(self, *behaviours: Behaviour) -> None:
        self.script.extend(behaviours)

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            asked = await _request(reader)
            async with self.arrived:
                self.asked.append(asked)
                self.arrived.notify_all()
            behave = self.script.popleft() if self.script else self.otherwise
            await behave(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test has ended
        finally:
            self.at_once -= 1
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _request(reader: asyncio.StreamReader) -> Asked:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    body = json.loads(await reader.readexactly(int(headers["content-length"])))
    return Asked(first.split(" ")[1], headers, body)
