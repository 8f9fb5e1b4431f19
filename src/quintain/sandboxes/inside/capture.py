"""What scenario code prints, kept for the call that printed it."""

import io
import sys
from typing import Any

LIMIT = 64 * 2**10
"""Bytes of output kept per call, with the note of what was cut."""

_ROOM = LIMIT - 64


class Output:
    """Stands in for standard output and error; handlers that took hold of the streams at import write here too."""

    def __init__(self) -> None:
        self._kept = _Bounded()
        self._stream = io.TextIOWrapper(self._kept, encoding="utf-8", errors="backslashreplace", write_through=True)

    def install(self) -> None:
        """Become `sys.stdout` and `sys.stderr`."""
        sys.stdout = sys.stderr = self._stream

    def write(self, text: str) -> None:
        """Add text of our own, such as a traceback."""
        self._kept.write(text.encode("utf-8", "backslashreplace"))

    def take(self) -> str:
        """Everything since the last time; empties the buffer."""
        return self._kept.take()


class _Bounded(io.BytesIO):
    def __init__(self) -> None:
        super().__init__()
        self._lost = 0

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        kept = view[: max(_ROOM - self.tell(), 0)]
        super().write(kept)
        self._lost += len(view) - len(kept)
        return len(view)

    def take(self) -> str:
        text = self.getvalue().decode("utf-8", "ignore")
        if self._lost:
            text += f"\n[{self._lost} more bytes were printed]"
        self.seek(0)
        self.truncate()
        self._lost = 0
        return text
