"""`/mcp`: JSON-RPC over HTTP with OpenEnv's sessions, and the same requests inside a WebSocket's `mcp` message.

A client creates a session (`openenv/session/create`), attaches a WebSocket to it (`/ws?session_id=`), resets
there, and lists and calls tools here. A call is a step: it counts, it is recorded, and its reward is in `data`.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from quintain.contracts.observation import AwmListToolsObservation
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import CallToolAction, ListToolsAction
from quintain.errors import CapacityError, QuintainError
from quintain.server.http import json_response
from quintain.server.messages import JsonObject, parse_json
from quintain.server.scopes import scope_of
from quintain.server.sessions import Session, SessionError, SessionRegistry, refuse_closing
from quintain.tasks.pooled import PoolScope

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000

_LOG = logging.getLogger(__name__)


class RpcRequest(BaseModel):
    """A JSON-RPC 2.0 request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: JsonObject = Field(default_factory=dict)
    id: str | int | None = None


@dataclass(frozen=True)
class Caller:
    """Who sends a request: what it may see, and the session of the WebSocket it came over, whose lock is held."""

    scope: PoolScope
    own: Session | None = None


class RpcError(Exception):
    """An error to answer a request with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.body: JsonObject = {"code": code, "message": message, "data": data}


async def mcp(request: Request) -> Response:
    """POST /mcp."""
    registry: SessionRegistry = request.app.state.registry
    limit: int = request.app.state.settings.max_message_bytes
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            error = RpcError(INVALID_REQUEST, f"the request is over {limit} bytes; send less")
            return json_response(_failed(None, error), status=413)
    try:
        document = parse_json(bytes(body))
    except ValueError as error:
        return json_response(_failed(None, RpcError(PARSE_ERROR, f"not JSON: {error}")))
    return json_response(await answer_rpc(registry, document, Caller(scope_of(request))))


async def answer_rpc(registry: SessionRegistry, document: Any, caller: Caller) -> JsonObject:
    """The response to a JSON-RPC request."""
    try:
        request = RpcRequest.model_validate(document)
    except ValidationError as error:
        wrong = ", ".join(sorted({str(item["loc"][0]) if item["loc"] else "the request" for item in error.errors()}))
        message = f"not a JSON-RPC 2.0 request; wrong or missing: {wrong[:300]}"
        return _failed(None, RpcError(INVALID_REQUEST, message))
    method = _METHODS.get(request.method)
    try:
        if method is None:
            known = ", ".join(_METHODS)
            raise RpcError(METHOD_NOT_FOUND, f"no method {request.method[:80]!r}; there are {known}")
        result = await method(registry, request.params, caller)
    except RpcError as error:
        return _failed(request.id, error)
    except CapacityError as error:
        return _failed(request.id, RpcError(SERVER_ERROR, str(error), registry.counts() | error.counts))
    except SessionError as error:
        return _failed(request.id, RpcError(INVALID_PARAMS, str(error)))
    except QuintainError as error:
        return _failed(request.id, RpcError(INTERNAL_ERROR, str(error)))
    except Exception as error:
        _LOG.exception("the request %s could not be answered", request.method[:80])
        return _failed(request.id, RpcError(INTERNAL_ERROR, f"the server failed on it: {type(error).__name__}"))
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


async def create_session(registry: SessionRegistry, _params: JsonObject, caller: Caller) -> JsonObject:
    """`openenv/session/create`: a new session, or over a WebSocket its own."""
    return {"session_id": (caller.own or await registry.admit(caller.scope)).id}


async def close_session(registry: SessionRegistry, params: JsonObject, caller: Caller) -> JsonObject:
    """`openenv/session/close`: at once, or as soon as its WebSocket has gone."""
    session = registry.get(_session_id(params), caller.scope)
    if session is caller.own:
        raise RpcError(INVALID_REQUEST, "a WebSocket's own session ends with it; send a close message instead")
    if session.attached:
        session.close_when_detached = True
        return {"session_id": session.id, "closed": False, "closing": True}
    await registry.close(session, TerminalReason.CLOSED)
    return {"session_id": session.id, "closed": True}


async def list_tools(registry: SessionRegistry, params: JsonObject, caller: Caller) -> JsonObject:
    """`tools/list`: the tools of the session's episode."""
    envelope, listed = await _step(registry, params, caller, ListToolsAction())
    fields = envelope["observation"]
    if not listed or fields["error"]:
        raise RpcError(INVALID_REQUEST, fields["error"])
    tools = [
        {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}
        for tool in fields["tools"]
    ]
    return {"tools": tools}


async def call_tool(registry: SessionRegistry, params: JsonObject, caller: Caller) -> JsonObject:
    """`tools/call`: one step. `data` holds the observation's fields, `reward` and `done`."""
    try:
        action = CallToolAction(tool_name=params.get("name"), arguments=params.get("arguments") or {})  # type: ignore[arg-type]
    except ValidationError:
        raise RpcError(INVALID_PARAMS, "tools/call needs a name (a string) and arguments (an object)") from None
    if not action.tool_name:
        raise RpcError(INVALID_PARAMS, "tools/call needs the name of a tool")
    envelope, _ = await _step(registry, params, caller, action)
    data = {**envelope["observation"], "reward": envelope["reward"], "done": envelope["done"]}
    error = data.get("error")
    text = error or data.get("tool_result")
    if not isinstance(text, str):
        text = json.dumps(data)
    return {"content": [{"type": "text", "text": text}], "is_error": error is not None, "data": data}


async def _step(
    registry: SessionRegistry, params: JsonObject, caller: Caller, action: ListToolsAction | CallToolAction
) -> tuple[JsonObject, bool]:
    """One step in the session a request is for; also whether it came to a list of tools."""
    if caller.own is not None and params.get("session_id") in (None, caller.own.id):
        observation = await caller.own.awm.step(action)  # the WebSocket's loop holds the lock
    elif caller.own is not None:
        raise RpcError(INVALID_PARAMS, "a WebSocket serves its own session only; leave session_id out")
    else:
        session = registry.get(_session_id(params), caller.scope)
        async with session:
            refuse_closing(session)  # it may have been closed while this waited its turn
            session.touch()
            observation = await session.awm.step(action)
            session.touch()
    return observation.envelope(), isinstance(observation, AwmListToolsObservation)


def _session_id(params: JsonObject) -> str:
    session_id = params.get("session_id")
    if not isinstance(session_id, str) or not session_id:
        raise RpcError(INVALID_PARAMS, "session_id is needed; openenv/session/create gives one")
    return session_id


def _failed(request_id: str | int | None, error: RpcError) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.body}


Method = Callable[[SessionRegistry, JsonObject, Caller], Awaitable[JsonObject]]

_METHODS: Final[dict[str, Method]] = {
    "openenv/session/create": create_session,
    "openenv/session/close": close_session,
    "tools/list": list_tools,
    "tools/call": call_tool,
}
