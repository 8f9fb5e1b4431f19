"""The ingest process's HTTP endpoint: workers elsewhere send what is in their spools.

`POST /v1/records` takes frames, as they are in a spool's segment, with `Content-Encoding: zstd` if they are compressed.
The answer comes when they are durable. The states that records name are sent before them: `POST /v1/states` says which
digests the store lacks, and `PUT /v1/states/DIGEST` takes one. `GET /health` says how the process gets on.
"""

import asyncio
import contextlib
import ipaddress
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

import uvicorn
import zstandard
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from quintain.contracts.identity import sha256
from quintain.errors import ArtifactError, DescriptorError, LedgerError, RecordError, RecordUnreadable, SettingsError
from quintain.records.form import canonical
from quintain.records.frames import frames
from quintain.records.recorder import Sealed

if TYPE_CHECKING:
    from quintain.records.service import IngestOptions, Service

MAX_BODY_BYTES: Final = 64 * 2**20
"""Largest body, also once it is decompressed."""

PATH: Final = "/v1/records"
STATES_PATH: Final = "/v1/states"
MAX_DIGESTS: Final = 100_000
CONTENT_TYPE: Final = "application/vnd.quintain.records"
_LOOK_S: Final = 0.05
_TOKEN_HINT: Final = "send the ingest process's token: Authorization: Bearer TOKEN"


class _Refused(Exception):
    """A request that gets an error's answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def create_app(service: "Service", token: str | None, max_body_bytes: int = MAX_BODY_BYTES) -> Starlette:
    """The endpoint's application."""
    app = Starlette(
        routes=[
            Route(PATH, records, methods=["POST"]),
            Route(STATES_PATH, missing_states, methods=["POST"]),
            Route(f"{STATES_PATH}/{{digest}}", state, methods=["PUT"]),
            Route("/health", health, methods=["GET"]),
        ]
    )
    app.state.service = service
    app.state.token = token
    app.state.max_body_bytes = max_body_bytes
    return app


async def health(request: Request) -> JSONResponse:
    """What was ingested since the start; 503 while nothing can be stored."""
    tally = request.app.state.service.tally
    return JSONResponse(asdict(tally), status_code=503 if tally.problem else 200)


async def records(request: Request) -> JSONResponse:
    """Accept records; 200 says that all that were new are durable."""

    async def accept(body: bytes) -> dict[str, Any]:
        payloads = await asyncio.to_thread(_payloads, body, request)
        accepted = await asyncio.wrap_future(request.app.state.service.put(payloads))
        told = {"new": accepted.new, "duplicates": accepted.duplicates, "refused": accepted.refused}
        return told | ({"stateless": accepted.states.missing} if accepted.states.missing else {})

    return await _answered(request, accept)


async def missing_states(request: Request) -> JSONResponse:
    """Which of the digests in `{"digests": [...]}` the store lacks."""

    async def look(body: bytes) -> dict[str, Any]:
        try:
            digests = json.loads(body)["digests"]
            if not isinstance(digests, list) or len(digests) > MAX_DIGESTS:
                raise ValueError(f"a list of at most {MAX_DIGESTS} digests is needed")
            lacking = await asyncio.to_thread(request.app.state.service.missing_states, [str(one) for one in digests])
        except (ValueError, LookupError, TypeError, RecursionError, DescriptorError) as error:
            raise _Refused(400, f"not digests: {error}") from error
        return {"missing": lacking}

    return await _answered(request, look)


async def state(request: Request) -> JSONResponse:
    """Take one file of a state; 200 says that it is durable."""

    async def take(body: bytes) -> dict[str, Any]:
        digest = request.path_params["digest"]
        data = await asyncio.to_thread(_decoded, body, request)
        if sha256(data) != digest:
            raise _Refused(400, f"a state whose digest is {sha256(data)}, and not {digest[:100]}; send it again")
        return {"digest": await asyncio.to_thread(request.app.state.service.put_state, data)}

    return await _answered(request, take)


async def _answered(request: Request, do: Callable[[bytes], Awaitable[dict[str, Any]]]) -> JSONResponse:
    """The answer to a request that is admitted, or why there is none."""
    try:
        _admit(request)
        return JSONResponse(await do(await _body(request)))
    except _Refused as refused:
        return JSONResponse({"error": str(refused)}, status_code=refused.status)
    except (LedgerError, ArtifactError, RecordError, OSError) as error:
        return JSONResponse({"error": str(error)}, status_code=503, headers={"Retry-After": "1"})
    except ClientDisconnect:
        return JSONResponse({"error": "the body ended early"}, status_code=400)


def _admit(request: Request) -> None:
    token = request.app.state.token
    if token is None:
        if "origin" in request.headers:  # a browser's page has no business here
            raise _Refused(403, "pages may not send records; set a token, or send no Origin header")
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not compare_digest(given.strip().encode(), token.encode()):
        raise _Refused(401, _TOKEN_HINT)


async def _body(request: Request) -> bytes:
    limit = request.app.state.max_body_bytes
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _Refused(413, f"a body over {limit} bytes; send fewer records at a time")
        parts.append(part)
    return b"".join(parts)


def _decoded(body: bytes, request: Request) -> bytes:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "zstd":
        return _decompressed(body, request.app.state.max_body_bytes)
    if encoding != "identity":
        raise _Refused(415, f"content encoding {encoding[:40]!r}; send zstd or none")
    return body


def _payloads(body: bytes, request: Request) -> list[bytes]:
    body = _decoded(body, request)
    try:
        payloads = list(frames(body))
        for payload in payloads:
            data = Sealed.read(payload).data
            if canonical(json.loads(data)) != data:
                raise _Refused(400, "a record that is not canonical JSON (RFC 8785)")
    except (ValueError, RecursionError, RecordUnreadable) as error:
        raise _Refused(400, f"not records: {error}") from error
    return payloads


def _decompressed(body: bytes, limit: int) -> bytes:
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(body)
        data = reader.read(limit + 1)
    except zstandard.ZstdError as error:
        raise _Refused(400, f"not zstd: {error}") from error
    if len(data) > limit:
        raise _Refused(413, f"a body over {limit} bytes once it is decompressed; send fewer records at a time")
    return data


def serve(service: "Service", options: "IngestOptions", sock: socket.socket, ending: threading.Event) -> None:
    """Serve at a socket that listens until the event is set or the service ends."""
    from quintain.records.service import say

    server = uvicorn.Server(
        uvicorn.Config(create_app(service, options.token), log_level="warning", lifespan="off", access_log=False)
    )
    shown = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{shown}:{sock.getsockname()[1]}"
    say(options, {"event": "ready", "store": str(options.store), "url": url})
    # in a thread of its own: in the main one uvicorn would take the signals for itself
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[sock])), name="quintain-ingest-http")
    thread.start()
    while not ending.wait(_LOOK_S) and not service.ended.is_set() and thread.is_alive():
        pass
    server.should_exit = True
    thread.join()


@contextlib.contextmanager
def listening(options: "IngestOptions") -> Iterator[socket.socket]:
    """A socket at the address that the options name, on which connections wait until somebody serves.

    Raises:
        SettingsError: the address cannot be listened on, or others can reach it and there is no token.
    """
    if options.token is None and not _loopback(options.host):
        raise SettingsError(
            f"the ingest process would listen on {options.host!r}, which others can reach, and there is no "
            "QUINTAIN_INGEST_TOKEN; set a token, or listen on 127.0.0.1"
        )
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        sock = socket.create_server((options.host, options.port or 0), family=family)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {options.host}:{options.port} ({error.strerror}); name another"
        ) from error
    with sock:
        yield sock


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
