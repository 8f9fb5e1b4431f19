"""The agent plane: `/agent/TOKEN/mcp`, where the agent of one episode lists and calls its tools, and nothing else.

MCP over streamable HTTP, without sessions and streams of its own: one POST is one request with one JSON answer. A call
is a step of the same episode as the trainer's, under the same lock, but nothing that is sent from here tells of
rewards, verdicts or whose failure something was. The token is all that an agent has; the server's own is asked for
nowhere here. Whatever is not the address of a running episode answers as if it did not exist.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from quintain.contracts.tools import shown_name
from quintain.contracts.untrusted import json_problem, whole_text
from quintain.server.agent_tokens import AgentPass, AgentTokens
from quintain.server.awm import AwmSession
from quintain.server.http import json_response
from quintain.server.messages import JsonObject, parse_json
from quintain.server.sessions import Session
from quintain.server.settings import Settings

PREFIX: Final = "/agent/"
"""Everything below it is the agent plane's."""

WAITING_REQUESTS: Final = 256
"""Most requests of one episode under way at a time, those that wait included."""

_PATH: Final = re.compile(r"/agent/([A-Za-z0-9_-]{43})/mcp")
_PIECE: Final = 64 * 1024
_MAX_ID: Final = 256
_METHODS: Final = ("initialize", "ping", "tools/list", "tools/call")
_STEPS: Final = ("tools/list", "tools/call")

Exchange = Callable[[AwmSession, Scope, JsonObject], Awaitable[Response]]


class Refused(Exception):
    """A request that is answered with an error of JSON-RPC and goes no further."""

    def __init__(self, status: int, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        error = {"code": code, "message": message}
        self.response = json_response({"jsonrpc": "2.0", "id": request_id, "error": error}, status)


class Over(Exception):
    """The episode has ended, or the client has gone before its turn came."""


class AgentPlane:
    """The ASGI application of everything below `/agent/`."""

    def __init__(self, agents: AgentTokens[Session], settings: Settings) -> None:
        self._agents = agents
        self._limit = min(settings.max_agent_message_bytes, settings.max_message_bytes)
        self._body_timeout_s = settings.ping_timeout_s
        self._exchange: Exchange | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        found = _PATH.fullmatch(scope["path"])
        granted = self._agents.find(found[1]) if found is not None else None
        if granted is None:
            await _not_found(scope, receive, send)
        elif scope["method"] != "POST":  # streams and sessions are not offered
            await Response(status_code=405, headers={"allow": "POST"})(scope, receive, send)
        else:
            await self._post(granted, scope, receive, send)

    async def _post(self, granted: AgentPass[Session], scope: Scope, receive: Receive, send: Send) -> None:
        if granted.requests >= WAITING_REQUESTS:
            refusal = Refused(429, -32000, f"over {WAITING_REQUESTS} requests at once; wait for the answers of some")
            await refusal.response(scope, receive, send)
            return
        granted.requests += 1
        try:
            async with granted.places:
                try:
                    response = await self._answer(granted, scope, receive)
                except Refused as refused:
                    response = refused.response
                except Over:
                    await _not_found(scope, receive, send)
                    return
                await _deliver(response, send)
        finally:
            granted.requests -= 1

    async def _answer(self, granted: AgentPass[Session], scope: Scope, receive: Receive) -> Response:
        body = bytearray()
        try:
            await _until_over(granted, self._read(granted, scope, receive, body))
            request = read_request(bytes(body))
            if request is None:
                return Response(status_code=202)
            exchange = await self._speaking()
            if request["method"] in _STEPS:
                return await _Step(granted, exchange, scope, request).answered(receive)
            return await exchange(granted.holder.awm, scope, request)
        finally:
            granted.held_bytes -= len(body)

    async def _read(self, granted: AgentPass[Session], scope: Scope, receive: Receive, body: bytearray) -> None:
        """Read a body; all that an episode's requests hold at a time is bounded as one of them is."""
        if _header(scope, b"content-type").partition(b";")[0].strip().lower() != b"application/json":
            raise Refused(415, -32600, "send JSON: Content-Type: application/json")
        try:
            async with asyncio.timeout(self._body_timeout_s):
                more = True
                while more:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise Over
                    part, more = event.get("body", b""), event.get("more_body", False)
                    if granted.held_bytes + len(part) > self._limit:
                        raise Refused(413, -32600, f"over {self._limit} bytes at once; send less")
                    body += part
                    granted.held_bytes += len(part)
        except TimeoutError:
            raise Refused(408, -32600, f"the request did not come within {self._body_timeout_s:g} s") from None

    async def _speaking(self) -> Exchange:
        """What speaks MCP. Importing it takes most of a second, so it is done when an agent first asks."""
        if self._exchange is None:
            self._exchange = await asyncio.to_thread(_learn)
        return self._exchange


def _learn() -> Exchange:
    from quintain.server.agent_mcp import exchange

    return exchange


class _Step:
    """A step of the agent. It is dropped if the client goes before its turn has come; begun, it is finished.

    When the episode is about to end it is broken off.
    """

    def __init__(self, granted: AgentPass[Session], exchange: Exchange, scope: Scope, request: JsonObject) -> None:
        self._granted = granted
        self._exchange = exchange
        self._scope = scope
        self._request = request
        self._begun = False

    async def answered(self, receive: Receive) -> Response:
        """Take the step; its answer.

        Raises:
            Over: the client has gone, or the episode has ended.
        """
        step = asyncio.ensure_future(self._take())
        gone = asyncio.ensure_future(_hung_up(receive))
        over = asyncio.ensure_future(self._granted.ended.wait())
        try:
            await asyncio.wait((step, gone, over), return_when=asyncio.FIRST_COMPLETED)
            if self._begun:
                await asyncio.wait((step, over), return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                raise Over
            return step.result()
        finally:
            await _dropped(step, gone, over)

    async def _take(self) -> Response:
        session = self._granted.holder
        async with session:
            if self._granted.ended.is_set():  # it ended while this waited its turn
                raise Over
            self._begun = True
            session.touch()
            response = await self._exchange(session.awm, self._scope, self._request)
            session.touch()
            return response


def read_request(body: bytes) -> JsonObject | None:
    """The request in a body, with only what its method needs; None for a notification, of which none means anything.

    Raises:
        Refused: it is none, or one of a method that is not there.
    """
    try:
        message = parse_json(body)
    except ValueError as error:
        raise Refused(400, -32700, f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise Refused(400, -32600, "send one JSON-RPC request, an object")
    request_id, method = message.get("id"), message.get("method")
    if "id" in message and not _is_id(request_id):
        raise Refused(400, -32600, f"id is not an integer or a string of up to {_MAX_ID} characters")
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Refused(400, -32600, "not a JSON-RPC 2.0 request: jsonrpc or method is wrong or missing", request_id)
    if "id" not in message:
        return None
    if method not in _METHODS:
        raise Refused(200, -32601, f"no method {method[:80]!r}", request_id)
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        raise Refused(200, -32602, "params is not an object", request_id)
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": _params(method, params or {}, request_id)}


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_ID and json_problem(value) is None
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _params(method: str, given: JsonObject, request_id: str | int | None) -> JsonObject:
    if method == "initialize":
        version = given.get("protocolVersion")
        if not isinstance(version, str) or len(version) > _MAX_ID:
            raise Refused(200, -32602, "initialize needs a protocolVersion (a string)", request_id)
        # who the client is and what it can do changes nothing here
        client = {"name": "agent", "version": "1"}
        return {"protocolVersion": whole_text(version), "capabilities": {}, "clientInfo": client}
    if method == "tools/call":
        name, arguments = given.get("name"), given.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise Refused(200, -32602, "tools/call needs a name (a string) and arguments (an object)", request_id)
        return {"name": whole_text(shown_name(name)), "arguments": arguments or {}}
    return {}


async def _until_over(granted: AgentPass[Session], work: Coroutine[Any, Any, None]) -> None:
    """Do something as long as the episode lasts.

    Raises:
        Over: it has ended.
    """
    doing = asyncio.ensure_future(work)
    over = asyncio.ensure_future(granted.ended.wait())
    try:
        await asyncio.wait((doing, over), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Over
        doing.result()
    finally:
        await _dropped(doing, over)


async def _dropped(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _deliver(response: Response, send: Send) -> None:
    """Send a response piece by piece: each waits until the client has read what came before."""
    body = bytes(response.body)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for first in range(0, len(body), _PIECE):
        await send({"type": "http.response.body", "body": body[first : first + _PIECE], "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """What any address that is not there answers."""
    await PlainTextResponse("Not Found", 404)(scope, receive, send)


def _header(scope: Scope, name: bytes) -> bytes:
    found: bytes = dict(scope["headers"]).get(name, b"")
    return found
