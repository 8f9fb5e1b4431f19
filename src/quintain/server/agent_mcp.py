"""One exchange of the agent plane, spoken by the MCP SDK: the only file here that imports it, when an agent first asks.

There are no sessions of MCP's own: each request gets a server and a transport of its own, which end with it. A request
comes here checked, and of what the agent sent only what is needed goes through the SDK; a call's arguments go past it,
since the SDK would turn NaN into null and copy what is large.
"""

import asyncio
import json
import logging
from typing import Any, Final

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.shared.exceptions import McpError
from starlette.responses import Response
from starlette.types import Message, Scope

from quintain.environments.base import ToolOutcome, ToolStatus
from quintain.errors import Owner
from quintain.server.awm import AwmSession

JsonObject = dict[str, Any]

UNANSWERED: Final = "the environment could not answer; the call may be tried again"
"""What an agent reads where the platform failed; whose failure it was is the record's business."""

EPISODE_DONE: Final = "quintain.dev/episode-done"
"""Key of a result's `_meta`: the environment has ended the episode, and takes no further call."""

TOOLS_CHANGED: Final = "quintain.dev/tools-changed"
"""Key of a result's `_meta`: other tools are there now than before the call. There are no streams to notify over."""

_OPTIONS: Final = InitializationOptions(
    server_name="tools",
    server_version="1",
    capabilities=types.ServerCapabilities(tools=types.ToolsCapability(listChanged=False)),
)
_HEADERS: Final = (b"accept", b"content-type", b"mcp-protocol-version")
_LOG = logging.getLogger(__name__)


async def exchange(awm: AwmSession, scope: Scope, request: JsonObject) -> Response:
    """Answer one JSON-RPC request: `initialize`, `ping`, `tools/list` or `tools/call`.

    Args:
        awm: the session of the agent's episode; for the last two the caller holds its lock.
        scope: of the HTTP request; three of its headers are looked at.
        request: with a string or an integer for `id`; a call's params are `name`, a string, and `arguments`, an object.
    """
    params = request.get("params", {})
    episode = _Episode(awm, params.get("arguments", {}))
    shown = {**request, "params": {**params, "arguments": {}}} if "arguments" in params else request
    body, answer = _Body(json.dumps(shown).encode()), _Answer()
    transport = StreamableHTTPServerTransport(None, is_json_response_enabled=True)
    headers = [(name, value) for name, value in scope["headers"] if name in _HEADERS]
    async with transport.connect() as (reading, writing), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(episode.server().run(reading, writing, _OPTIONS, stateless=True))
        try:
            await transport.handle_request({"type": "http", "method": "POST", "headers": headers}, body.receive, answer)
        finally:
            running.cancel()
    return answer.response()


class _Episode:
    """The tools of one episode, for one request."""

    def __init__(self, awm: AwmSession, arguments: JsonObject) -> None:
        self._awm = awm
        self._arguments = arguments

    def server(self) -> Server[Any, Any]:
        """An MCP server that has tools and nothing else."""
        server: Server[Any, Any] = Server(_OPTIONS.server_name, version=_OPTIONS.server_version)
        server.request_handlers[types.ListToolsRequest] = self._list
        server.request_handlers[types.CallToolRequest] = self._call
        return server

    async def _list(self, _request: types.ListToolsRequest) -> types.ServerResult:
        try:
            found = self._awm.agent_tools()
        except Exception:  # the SDK would send its text on
            _LOG.exception("an agent's tools could not be listed")
            raise McpError(types.ErrorData(code=types.INTERNAL_ERROR, message=UNANSWERED)) from None
        tools = [
            types.Tool(name=tool.name, description=tool.description, inputSchema={"type": "object"} | tool.input_schema)
            for tool in found
        ]
        return types.ServerResult(types.ListToolsResult(tools=tools))

    async def _call(self, request: types.CallToolRequest) -> types.ServerResult:
        before = self._awm.tools
        try:
            outcome = await self._awm.agent_call(request.params.name, self._arguments)
        except Exception:  # likewise
            _LOG.exception("an agent's call could not be answered")
            outcome = ToolOutcome(status=ToolStatus.SERVER_ERROR, owner=Owner.INFRASTRUCTURE)
        text, failed = types.TextContent(type="text", text=_text(outcome)), outcome.status is not ToolStatus.OK
        told = {EPISODE_DONE: True} if self._awm.environment_done else {}
        if list(self._awm.tools) != list(before):
            told[TOOLS_CHANGED] = True
        return types.ServerResult(types.CallToolResult(content=[text], isError=failed, _meta=told or None))


def _text(outcome: ToolOutcome) -> str:
    if outcome.owner is Owner.INFRASTRUCTURE:
        return UNANSWERED
    return (outcome.text if outcome.status is ToolStatus.OK else outcome.error) or ""


class _Body:
    """A request's body, as ASGI hands it over."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def receive(self) -> Message:
        """ASGI."""
        return {"type": "http.request", "body": self._body, "more_body": False}


class _Answer:
    """Keeps what the transport sends, so that nothing goes out before the step is over."""

    def __init__(self) -> None:
        self._status = 500
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        """ASGI."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._body += message.get("body", b"")

    def response(self) -> Response:
        """What was sent; of its headers the type alone."""
        return Response(bytes(self._body), self._status, media_type="application/json")
