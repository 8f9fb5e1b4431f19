"""A chat-completions endpoint on loopback that answers by script or rule, and fails, stalls or breaks off on request.

    async with FakeEndpoint(Solver(solutions)) as fake:
        settings = ChatSettings(base_url=fake.url, model="fake")

It speaks HTTP over plain sockets, so that it can also break the protocol, and its tokens are the same in every process.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from quintain.agents.fake_replies import Drops, Fails, Garbage, Refuses, Reply, Rule, Says, chunks_of, completion_body

JsonObject = dict[str, Any]

_MAX_BODY: Final = 64 * 2**20


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: JsonObject


class FakeEndpoint:
    """Answers each request with the next reply of the script, and by the rule when the script is over.

    Args:
        rule: a reply by the request's body; a text that says so where there is none.
        script: replies that come first, in order, one for each request of whatever conversation.
        port: 0 for a free one.
        api_key: what requests must carry; None for anything.
        context_tokens: a prompt of more tokens is refused, as one that is too long for the model.
        at_once: over so many requests at a time it answers 429 with `Retry-After: 0`.
    """

    def __init__(
        self,
        rule: Rule | None = None,
        script: Iterable[Reply] = (),
        *,
        port: int = 0,
        api_key: str | None = None,
        context_tokens: int | None = None,
        at_once: int | None = None,
    ) -> None:
        self.script = deque(script)
        self.asked: list[Asked] = []
        self.arrived = asyncio.Event()
        """Set by every request."""
        self.under_way = 0
        self.most_under_way = 0
        self.url = ""
        self._rule = rule or (lambda _: Says(text="There is no script."))
        self._port = port
        self.api_key = api_key
        self._context_tokens = context_tokens
        self._at_once = at_once
        self._tasks: set[asyncio.Task[Any]] = set()

    def then(self, *replies: Reply) -> None:
        """Add to the script."""
        self.script.extend(replies)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client left, or the fake ends
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection lives on."""
        asked = await _request(reader)
        self.asked.append(asked)
        self.arrived.set()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._answer(self._reply(asked), asked, writer)
        finally:
            self.under_way -= 1

    def _reply(self, asked: Asked) -> Reply:
        if self.api_key is not None and asked.headers.get("authorization") != f"Bearer {self.api_key}":
            return Fails(status=401, message=f"bad key {asked.headers.get('authorization')}")
        if not asked.path.endswith("/chat/completions"):
            return Fails(status=404, message=f"no {asked.path}")
        if self._at_once is not None and self.under_way > self._at_once:
            return Fails(status=429, message="too many at once", retry_after="0")
        if self._context_tokens is not None:
            found = completion_body(Says(), asked.body)["usage"]["prompt_tokens"]
            if found > self._context_tokens:
                told = f"{found} tokens are more than {self._context_tokens}"
                return Fails(status=400, code="context_length_exceeded", message=told)
        return self.script.popleft() if self.script else self._rule(asked.body)

    async def _answer(self, reply: Reply, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(reply.delay_s)
        if isinstance(reply, Drops):
            return False
        if isinstance(reply, Garbage):
            return await _sent(writer, reply.status, reply.body.encode(), {"content-type": reply.content_type})
        if isinstance(reply, Fails):
            error = {"error": {"message": reply.message, "type": "error", "code": reply.code}}
            wait = {} if reply.retry_after is None else {"retry-after": reply.retry_after}
            return await _sent(writer, reply.status, json.dumps(error).encode(), wait)
        answer = completion_body(reply, asked.body)
        if not asked.body.get("stream"):
            data = json.dumps(answer).encode()
            cut = isinstance(reply, Says) and reply.cut_after is not None
            return await _sent(writer, 200, data, cut=len(data) // 2 if cut else None)
        usage = bool((asked.body.get("stream_options") or {}).get("include_usage"))
        return await _streamed(writer, reply, chunks_of(answer, usage))


async def _streamed(writer: asyncio.StreamWriter, reply: Says | Refuses, chunks: Sequence[JsonObject]) -> bool:
    """Send chunks as events; False where the connection is to break in the middle of them."""
    cut = reply.cut_after if isinstance(reply, Says) else None
    pause_s = reply.pause_s if isinstance(reply, Says) else 0.0
    writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    for number, chunk in enumerate(chunks):
        if number == cut:
            await writer.drain()
            return False
        writer.write(_piece(f"data: {json.dumps(chunk)}\n\n".encode()))
        if pause_s:
            await writer.drain()
            await asyncio.sleep(pause_s)
    writer.write(_piece(b"data: [DONE]\n\n") + _piece(b""))
    await writer.drain()
    return True


async def _sent(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    headers: dict[str, str] | None = None,
    cut: int | None = None,
) -> bool:
    """Send a whole body, or as many bytes of it as `cut` says; False where the connection is to break then."""
    told = {"content-type": "application/json", "content-length": str(len(body))} | (headers or {})
    writer.write(_head(status, told) + body[:cut])
    await writer.drain()
    return cut is None


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode("latin-1")


def _piece(data: bytes) -> bytes:
    """One piece of a chunked body; an empty one ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _request(reader: asyncio.StreamReader) -> Asked:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    length = int(headers.get("content-length", "0"))
    if length > _MAX_BODY:
        raise EOFError
    data = await reader.readexactly(length)
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = {}
    return Asked(first.split(" ")[1], headers, body if isinstance(body, dict) else {})
