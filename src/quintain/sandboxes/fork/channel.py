"""Asynchronous frames to a process inside the sandbox; the counterpart of `quintain.sandboxes.inside.channel`.

What arrives is untrusted: sizes are bounded, much JSON is parsed away from the event loop, and what does not parse ends
the conversation.
"""

import array
import asyncio
import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

from quintain.errors import ResultTooLarge, SandboxLost

_HEADER = struct.Struct("<I")
_CREDENTIALS = struct.Struct("3i")
MAX_ATTACHED = 16 * 2**20
_MUCH = 128 * 1024
_MAX_BRACKETS = 200_000
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(32 * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)


class Channel:
    """The platform's end of one conversation. One message at a time; not for concurrent use."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._buffer = bytearray()

    @classmethod
    def pair(cls) -> tuple["Channel", socket.socket]:
        """A channel and the other end of its socket, to be passed to a process inside."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        return cls(ours), theirs

    async def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message; descriptors are duplicated into the receiver.

        Raises:
            SandboxLost: the other side has gone.
        """
        body = json.dumps(message).encode()
        data = _HEADER.pack(len(body)) + body
        try:
            if fds:
                # a fresh channel's buffer takes these small messages whole
                sent = socket.send_fds(self._sock, [data], list(fds))
                data = data[sent:]
            if data:
                await asyncio.get_running_loop().sock_sendall(self._sock, data)
        except OSError as error:
            raise SandboxLost(f"the sandboxed process is gone ({error.strerror})") from error

    async def receive(self, limit: int) -> dict[str, Any]:
        """Wait for one message of at most `limit` bytes, and the texts attached to its answer.

        Raises:
            SandboxLost: the other side has gone, or sent what is not a message.
            ResultTooLarge: the message is larger; the conversation cannot go on.
        """
        (size,) = _HEADER.unpack(await self._take(_HEADER.size))
        if size > limit:
            raise ResultTooLarge(f"an answer of {size} bytes is over the limit of {limit}")
        body = await self._take(size)
        message = _parsed(body) if size <= _MUCH else await asyncio.to_thread(_parsed, body)
        if message.get("attached"):
            await self._take_attached(message)
        return message

    async def _take_attached(self, message: dict[str, Any]) -> None:
        named, answer = message["attached"], message.get("answer")
        try:
            sizes = {str(name): int(size) for name, size in named}
        except (TypeError, ValueError) as error:
            raise SandboxLost("the sandboxed process attached what it does not name") from error
        if not isinstance(answer, dict) or min(sizes.values()) < 0:
            raise SandboxLost("the sandboxed process attached texts to no answer")
        if sum(sizes.values()) > MAX_ATTACHED:
            raise ResultTooLarge(f"texts of {sum(sizes.values())} bytes are over the limit of {MAX_ATTACHED}")
        for name, size in sizes.items():
            text = await self._take(size)
            try:
                answer[name] = text.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise SandboxLost("the sandboxed process attached what is no text") from error

    async def _take(self, size: int) -> bytes:
        await self._fill(size)
        data = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return data

    async def receive_with_descriptors(self, limit: int) -> tuple[dict[str, Any], list[int], int]:
        """Wait for one message that may carry descriptors: (message, descriptors, sender's process id or 0).

        The caller owns the descriptors. Raises as `receive` does.
        """
        loop = asyncio.get_running_loop()
        fds: list[int] = []
        pid = 0
        try:
            while len(self._buffer) < _HEADER.size:
                try:
                    data, ancillary, _, _ = self._sock.recvmsg(65536, _DESCRIPTOR_SPACE, socket.MSG_CMSG_CLOEXEC)
                except BlockingIOError:
                    await _readable(loop, self._sock)
                    continue
                except OSError as error:
                    raise SandboxLost(f"the sandboxed process is gone ({error.strerror})") from error
                if not data:
                    raise SandboxLost("the sandboxed process ended before it was ready")
                self._buffer += data
                for level, kind, payload in ancillary:
                    if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                        fds += array.array("i", payload[: len(payload) - len(payload) % 4])
                    elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                        pid = _CREDENTIALS.unpack(payload[: _CREDENTIALS.size])[0]
            return await self.receive(limit), fds, pid
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise

    @property
    def connected(self) -> bool:
        """False once either side has hung up. Only to be asked while no answer is awaited."""
        try:
            return bool(self._buffer or self._sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Hang up. Idempotent."""
        self._sock.close()

    async def _fill(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        while len(self._buffer) < size:
            try:
                data = await loop.sock_recv(self._sock, max(65536, size - len(self._buffer)))
            except OSError as error:
                raise SandboxLost(f"the sandboxed process is gone ({error.strerror})") from error
            if not data:
                raise SandboxLost("the sandboxed process ended without answering")
            self._buffer += data


async def _readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock.fileno(), _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock.fileno())


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _parsed(body: bytes) -> dict[str, Any]:
    if body.count(b"[") + body.count(b"{") > _MAX_BRACKETS:  # making so many objects would hold everybody up
        raise SandboxLost("the sandboxed process sent more lists and objects than anyone looks at")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SandboxLost(f"the sandboxed process sent what is not JSON ({error})") from error
    if not isinstance(message, dict):
        raise SandboxLost("the sandboxed process sent JSON that is not an object")
    return message
