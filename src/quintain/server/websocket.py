"""`/ws`: OpenEnv's control plane. One session per connection, or an existing one by `?session_id=`.

Reading and working are separate tasks, so a client that goes away in the middle of a call is noticed at once, or within
half a second while many of its messages wait their turn: the call is cancelled, what waits is dropped, its session is
destroyed. Messages of one session are answered strictly in order.
"""

import asyncio
import logging
from contextlib import suppress

from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import ACTION
from quintain.errors import CapacityError, QuintainError
from quintain.server.connection import gone
from quintain.server.mcp import Caller, answer_rpc
from quintain.server.messages import (
    CloseMessage,
    ErrorCode,
    JsonObject,
    McpMessage,
    Message,
    MessageError,
    ResetMessage,
    StateMessage,
    encode,
    error_message,
    invalid,
    read_message,
)
from quintain.server.scopes import scope_of
from quintain.server.sessions import Session, SessionError, SessionRegistry

QUEUED_FRAMES = 16
"""Frames read ahead of the one being worked on; a client that sends more has to wait."""

LARGE_FRAME = 2**18
"""A frame longer than this is worked off before another is queued behind it."""

_ABNORMAL = 1006
_SHUTDOWN = 1012
_REASONS = {
    1000: TerminalReason.CLOSED,
    1001: TerminalReason.CLOSED,
    1005: TerminalReason.CLOSED,
    _SHUTDOWN: TerminalReason.SERVER_SHUTDOWN,
}
"""Why a connection ends, by the code of RFC 6455 it ends with; any other is a lost connection."""

_TOLD = {
    TerminalReason.CLOSED: "closed by the client",
    TerminalReason.CONNECTION_LOST: "the client has gone",
    TerminalReason.SERVER_SHUTDOWN: "the server is shutting down",
}

_LOG = logging.getLogger(__name__)


async def websocket(connection: WebSocket) -> None:
    """Serve one WebSocket from accept to close."""
    registry: SessionRegistry = connection.app.state.registry
    await connection.accept()
    session_id = connection.query_params.get("session_id")
    scope = scope_of(connection)
    try:
        session = registry.attach(session_id, scope) if session_id else await registry.admit(scope)
    except CapacityError as error:
        await _refuse(
            connection, error_message(ErrorCode.CAPACITY_REACHED, str(error), **registry.counts(), **error.counts)
        )
        return
    except SessionError as error:
        await _refuse(connection, error_message(ErrorCode.SESSION_ERROR, str(error)))
        return
    session.attached = True
    reason = TerminalReason.CONNECTION_LOST
    try:
        reason = await _serve(connection, registry, session, owned=not session_id)
    finally:
        ending = registry.detach(session) if session_id else registry.close(session, reason, _TOLD[reason])
        # the server's shutdown cancels this task too, and the sandbox must go all the same
        await asyncio.shield(asyncio.ensure_future(ending))
    if connection.application_state is not WebSocketState.DISCONNECTED:
        with suppress(RuntimeError, WebSocketDisconnect):
            await connection.close()


async def _refuse(connection: WebSocket, answer: JsonObject) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await connection.send_text(encode(answer))
        await connection.close()


async def _serve(connection: WebSocket, registry: SessionRegistry, session: Session, *, owned: bool) -> TerminalReason:
    """Read and work until either ends; why it did. A session that outlives the connection finishes its call."""
    frames: asyncio.Queue[str | bytes] = asyncio.Queue(QUEUED_FRAMES)
    reading = asyncio.create_task(_read(connection, frames), name=f"read {session.id}")
    working = asyncio.create_task(_work(connection, registry, session, frames), name=f"work {session.id}")
    losing = asyncio.create_task(gone(connection.scope).wait(), name=f"lose {session.id}")
    tasks = (reading, working, losing)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if owned and not working.done():
            registry.leaving(session)  # told before anything is cleaned up, so that its slot is waited for
        if not owned and session.lock.locked() and not working.done():
            async with session.lock:  # a call cut off half-way would leave the kept session out of step
                pass
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect):
            raise result
    code, closed, _ = results
    if closed is True:
        return TerminalReason.CLOSED
    return (
        _REASONS.get(code, TerminalReason.CONNECTION_LOST) if isinstance(code, int) else TerminalReason.CONNECTION_LOST
    )


async def _read(connection: WebSocket, frames: asyncio.Queue[str | bytes]) -> int:
    """Queue frames until the client disconnects; with which code."""
    large = False
    while True:
        event = await connection.receive()
        if event["type"] == "websocket.disconnect":
            # without a reason it was no farewell that ended it
            return int(event["code"]) if "reason" in event or event["code"] == _SHUTDOWN else _ABNORMAL
        if large:
            await frames.join()
        text = event.get("text")
        frame = text if text is not None else event.get("bytes") or b""
        large = len(frame) > LARGE_FRAME
        await frames.put(frame)


async def _work(
    connection: WebSocket, registry: SessionRegistry, session: Session, frames: asyncio.Queue[str | bytes]
) -> bool:
    """Answer queued frames until one closes the session or the client cannot be reached; whether it was closed."""
    while True:
        frame = await frames.get()
        async with session:
            if session.closing:
                return False
            session.touch()
            answer = await _answer(registry, session, frame)
            session.touch()
        if answer is None:
            return True
        try:
            await connection.send_text(encode(answer))  # waits while the client has not read what was sent before
        except (RuntimeError, WebSocketDisconnect):
            return False
        frames.task_done()


async def _answer(registry: SessionRegistry, session: Session, frame: str | bytes) -> JsonObject | None:
    """The answer to one frame; None for a close. Whatever goes wrong is an answer, and the session goes on."""
    try:
        message = read_message(frame)
        return None if isinstance(message, CloseMessage) else await _handle(registry, session, message)
    except MessageError as error:
        return error.answer
    except CapacityError as error:
        return error_message(ErrorCode.CAPACITY_REACHED, str(error), **registry.counts(), **error.counts)
    except QuintainError as error:
        return error_message(ErrorCode.EXECUTION_ERROR, str(error))
    except Exception as error:
        _LOG.exception("a message of session %s could not be answered", session.id)
        return error_message(ErrorCode.EXECUTION_ERROR, f"the server failed on this message: {type(error).__name__}")


async def _handle(registry: SessionRegistry, session: Session, message: Message) -> JsonObject:
    if isinstance(message, ResetMessage):
        return _observed((await session.awm.reset(message.data)).envelope())
    if isinstance(message, StateMessage):
        return {"type": "state", "data": session.awm.state.model_dump()}
    if isinstance(message, McpMessage):
        return {"type": "mcp", "data": await answer_rpc(registry, message.data, Caller(session.scope, session))}
    assert not isinstance(message, CloseMessage)
    try:
        action = ACTION.validate_python(message.data)
    except ValidationError as error:
        raise invalid(error) from None
    return _observed((await session.awm.step(action)).envelope())


def _observed(envelope: JsonObject) -> JsonObject:
    return {"type": "observation", "data": envelope}
