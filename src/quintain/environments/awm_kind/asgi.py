"""One request to an ASGI application, without a server or a client in between."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BODY = 40 * 2**20
"""Bytes of a response that are collected; an application that sends more is stopped."""


@dataclass(frozen=True)
class HttpRequest:
    """A request as the application sees it. `path` is decoded, `query` and `raw_path` are percent-encoded."""

    method: str
    path: str
    raw_path: bytes
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    def scope(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The ASGI scope; `state` is what the application's start-up yielded."""
        headers = [(b"host", b"apiserver"), (b"accept", b"*/*"), *self.headers]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.raw_path,
            "root_path": "",
            "query_string": self.query,
            "headers": headers,
            "client": ("127.0.0.1", 123),
            "server": ("apiserver", None),
            "state": dict(state),
            "extensions": {},
        }


@dataclass
class HttpResponse:
    """What the application sent. `complete` once the last part has arrived; `error` is what it raised."""

    status: int | None = None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False
    too_large: bool = False
    error: BaseException | None = None

    def header(self, name: bytes) -> str:
        """First value of a header, empty if there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), "")


class _TooLargeError(Exception):
    """Stops an application that sends more than is collected."""


async def exchange(app: Any, request: HttpRequest, state: Mapping[str, Any]) -> HttpResponse:
    """Send a request and collect the response. What the application raises is kept in it, never raised here."""
    response = HttpResponse()
    parts = iter([{"type": "http.request", "body": request.body, "more_body": False}])
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        for part in parts:
            return part
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            response.status = message["status"]
            response.headers = list(message.get("headers", ()))
        elif message["type"] == "http.response.body" and not response.complete:
            response.body += message.get("body", b"")
            if len(response.body) > MAX_BODY:
                response.too_large = True
                raise _TooLargeError
            if not message.get("more_body", False):
                response.complete = True
                ended.set()

    try:
        await app(request.scope(state), receive, send)
        await _let_tasks_run()
    except Exception as error:
        response.error = error
    return response


async def _let_tasks_run(turns: int = 20) -> None:
    """Give tasks that the call started a few turns of the loop; between calls it stands still."""
    for _ in range(turns):
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0)
