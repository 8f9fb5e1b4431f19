"""Blocking frames over a Unix stream socket: a 4-byte little-endian length, then JSON; descriptors ride along.

Long texts travel behind the JSON, as they are: `attached` in the message names each and its bytes. So the JSON of an
answer stays small, whatever a tool returns, and the platform never has to parse much that it does not trust.
"""

import array
import json
import os
import select
import socket
import struct
from typing import Any

HEADER = struct.Struct("<I")
MAX_MESSAGE = 8 * 2**20
MAX_ANSWER = 2**20
MAX_ATTACHED = 16 * 2**20
_LONG = 4096
_MAX_DESCRIPTORS = 32


class Closed(Exception):
    """The other side has gone."""


class Channel:
    """One end of a conversation with the platform, or of a zygote with its template."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = (), *, limit: int = MAX_MESSAGE) -> None:
        """Send one message; descriptors are duplicated into the receiver.

        Raises:
            ValueError: the message is larger than it may be; nothing was sent.
        """
        attached: list[bytes] = []
        answer = message.get("answer")
        if isinstance(answer, dict):
            message = {**message, **_detached(answer, attached)}
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
        behind = sum(map(len, attached))
        if len(body) > limit or behind > MAX_ATTACHED:
            raise ValueError(
                f"{len(body)} bytes, and {behind} of text, are over the limits of {limit} and {MAX_ATTACHED}"
            )
        data = memoryview(b"".join((HEADER.pack(len(body)), body, *attached)))
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.sock.sendmsg([data], ancillary)
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Wait for one message and its descriptors.

        Raises:
            Closed: the other side has gone.
        """
        header, fds = self._header()
        (size,) = HEADER.unpack(header)
        message = json.loads(self._exactly(size))
        return message, fds

    def waiting(self) -> bool:
        """Whether a message has begun to arrive, or the other side has gone."""
        return bool(select.select([self.sock], [], [], 0)[0])

    def _header(self) -> tuple[bytes, list[int]]:
        space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4)
        data, ancillary, _, _ = self.sock.recvmsg(HEADER.size, space, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise Closed
        fds: list[int] = []
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(payload) - len(payload) % 4
                fds += array.array("i", payload[:whole])
        return data + self._exactly(HEADER.size - len(data)), fds

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.sock.recv(min(size - len(parts), 2**20))
            if not part:
                raise Closed
            parts += part
        return bytes(parts)


def _detached(answer: dict[str, Any], attached: list[bytes]) -> dict[str, Any]:
    """The answer without its long texts, and what they are; the texts themselves are put into `attached`."""
    short, named = {}, []
    for name, value in answer.items():
        if isinstance(value, str) and len(value) > _LONG:
            text = value.encode("utf-8", "surrogatepass")
            attached.append(text)
            named.append([name, len(text)])
        else:
            short[name] = value
    return {"answer": short, "attached": named}


def take(fd: int) -> Channel:
    """A channel over a socket descriptor that was passed to this process."""
    return Channel(socket.socket(fileno=fd))


def read_all(fd: int) -> bytes:
    """Whole content of a file descriptor, from its start; the descriptor is closed."""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, size, 0)
    finally:
        os.close(fd)
