"""The WebSocket's transport: a client that does not read loses its connection, one that is only busy does not."""

import asyncio
import select
from collections.abc import Mapping
from typing import Any, Final, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

GONE: Final = "quintain.gone"
"""Name of the scope's extension that tells at once that the peer has gone; see `gone`."""

_FAREWELL_S: Final = 1.0
"""How long the last frame to a peer that is thought gone may take."""

_LOOK_S: Final = 0.5
"""How often to look for a peer that hung up while what it sent lies unread."""


def gone(scope: Mapping[str, Any]) -> asyncio.Event:
    """Set once a connection is lost, even while messages that came before that wait; never by another server."""
    found = scope.get("extensions", {}).get(GONE)
    return found["event"] if found is not None else asyncio.Event()


class PatientWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket with a deadline for what was sent, the same as for pings (`ws_ping_timeout`).

    Closing a transport waits until its buffer is empty, for ever if the peer never reads. So where something has to
    drain, a deadline stands behind it, and after that the connection is cut.

    While a client's messages wait their turn nothing is read, so neither is the end of the stream. It is looked for
    from time to time.
    """

    _cut: asyncio.TimerHandle | None = None
    _look: asyncio.TimerHandle | None = None
    _refused = False

    def handle_connect(self, event: Request) -> None:
        """The handshake: the application learns from its scope when the peer has gone."""
        self._gone = asyncio.Event()
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            cast(dict[str, Any], self.scope["extensions"])[GONE] = {"event": self._gone}

    def data_received(self, data: bytes) -> None:
        """What comes after a frame that was refused is dropped; unread, it would reset the connection."""
        if not self._refused:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        """A frame was refused: the peer is to learn why, so the connection ends only when it has, or soon."""
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self._refused = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._cut_in(_FAREWELL_S)

    def send_receive_event_to_app(self) -> None:
        """A message; nothing more is read until the application has taken it."""
        super().send_receive_event_to_app()
        if self.read_paused and self._look is None:
            self._look = self.loop.call_later(_LOOK_S, self._look_for_end)

    def pause_writing(self) -> None:
        """The buffer is full: the peer has until the deadline to read."""
        super().pause_writing()
        self._cut_later()

    def resume_writing(self) -> None:
        """The peer has read."""
        super().resume_writing()
        self._spare()

    def keepalive_timeout(self) -> None:
        """No pong in time. One may lie unread while the client's messages wait their turn; else it is gone."""
        if self.read_paused and not self.transport.is_closing():
            self.pong_timer = self.loop.call_later(self.ping_timeout or 0, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self.loop.call_later(_FAREWELL_S, self.transport.abort)

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        """The application is done with it; what it said last may take until the deadline to drain."""
        super().on_task_complete(task)
        if not self.disconnected and self._cut is None:
            self._cut_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._spare()
        if self._look is not None:
            self._look.cancel()
        if self.handshake_initiated:
            self._gone.set()
        super().connection_lost(exc)

    def _cut_later(self) -> None:
        if self.ping_timeout is not None:
            self._cut_in(self.ping_timeout)

    def _cut_in(self, seconds: float) -> None:
        self._spare()
        self._cut = self.loop.call_later(seconds, self.transport.abort)

    def _spare(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None

    def _look_for_end(self) -> None:
        self._look = None
        if not self.read_paused or self.transport.is_closing():
            return
        ends = select.poll()
        ends.register(self.transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        if ends.poll(0):  # the end of the stream, a reset or an error; what lies unread before it is dropped
            self.transport.abort()
        else:
            self._look = self.loop.call_later(_LOOK_S, self._look_for_end)
