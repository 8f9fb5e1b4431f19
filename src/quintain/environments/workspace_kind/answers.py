"""What a call comes to, and output of which the beginning and the end are kept."""

from typing import Any

HEAD_BYTES = TAIL_BYTES = 16 * 1024
"""How much of a command's output is kept, from its beginning and from its end."""


class Refusal(Exception):
    """The call cannot be done; says why and what to do."""


def done(text: str) -> dict[str, Any]:
    """The answer of a call that was done."""
    return {"status": "ok", "text": text}


def refused(error: str) -> dict[str, Any]:
    """The answer of one that was not."""
    return {"status": "tool_error", "error": error}


class Output:
    """What a command printed: of much, the beginning and the end, and how much was between them."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.total = 0
        self._most_head, self._most_tail = head, tail
        self._head, self._tail = bytearray(), bytearray()

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self.total += len(data)
        room = self._most_head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * self._most_tail:
            del self._tail[: -self._most_tail]

    def text(self) -> str:
        """As text; what is no UTF-8 is replaced."""
        tail = bytes(self._tail[-self._most_tail :])
        cut = self.total - len(self._head) - len(tail)
        middle = f"\n[{cut} bytes left out here]\n".encode() if cut else b""
        return (bytes(self._head) + middle + tail).decode("utf-8", "replace")
