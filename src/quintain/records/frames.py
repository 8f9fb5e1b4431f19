"""Frames of a spool's segments: length, checksums, bytes; and how reading goes on behind a damaged one.

A frame is a header of 16 bytes (magic, length of the payload, CRC-32 of the payload, CRC-32 of the 12 bytes before, all
big-endian) and the payload. The magic begins with 0xff, which no UTF-8 text holds, so nothing within a payload of text
can pass for a frame.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\xffQR1"
HEADER: Final = struct.Struct(">4sIII")
MAX_PAYLOAD_BYTES: Final = 256 * 2**20

_FIRST: Final = struct.Struct(">4sII")
_CHUNK: Final = 2**20


@dataclass(frozen=True)
class Frame:
    """A whole frame of a segment; `end` is the offset behind it, in bytes."""

    payload: bytes
    end: int


@dataclass(frozen=True)
class Gap:
    """Bytes from `start` to `end` that are no whole frame. With `last`, nothing whole comes after them."""

    start: int
    end: int
    last: bool


def frame(payload: bytes) -> bytes:
    """The frame of a payload."""
    first = _FIRST.pack(MAGIC, len(payload), zlib.crc32(payload))
    return first + zlib.crc32(first).to_bytes(4, "big") + payload


def frames(data: bytes) -> Iterator[bytes]:
    """The payloads of frames that stand one behind the other, in memory.

    Raises:
        ValueError: something in it is no whole frame.
    """
    offset = 0
    while offset < len(data):
        length = payload_length(data[offset : offset + HEADER.size])
        payload = data[offset + HEADER.size : offset + HEADER.size + (length or 0)]
        if length is None or not _intact(data[offset : offset + HEADER.size], payload, length):
            raise ValueError(f"no whole frame at byte {offset} of {len(data)}")
        yield payload
        offset += HEADER.size + length


def read(descriptor: int, offset: int) -> Frame | Gap | None:
    """What is at an offset of a segment; None at its end."""
    header = os.pread(descriptor, HEADER.size, offset)
    if not header:
        return None
    length = payload_length(header)
    if length is not None:
        payload = os.pread(descriptor, length, offset + HEADER.size)
        if _intact(header, payload, length):
            return Frame(payload, offset + HEADER.size + length)
    found = _next(descriptor, offset + 1)
    return Gap(offset, os.fstat(descriptor).st_size if found is None else found, found is None)


def payload_length(header: bytes) -> int | None:
    """The length a header gives; None if it is no header."""
    if len(header) < HEADER.size:
        return None
    magic, length, _, checksum = HEADER.unpack(header)
    if magic != MAGIC or length > MAX_PAYLOAD_BYTES or checksum != zlib.crc32(header[: _FIRST.size]):
        return None
    return int(length)


def _intact(header: bytes, payload: bytes, length: int) -> bool:
    return len(payload) == length and HEADER.unpack(header)[2] == zlib.crc32(payload)


def _next(descriptor: int, offset: int) -> int | None:
    """Where the next whole frame begins."""
    while chunk := os.pread(descriptor, _CHUNK, offset):
        at = chunk.find(MAGIC)
        while at >= 0:
            header = os.pread(descriptor, HEADER.size, offset + at)
            length = payload_length(header)
            if length is not None and _intact(header, os.pread(descriptor, length, offset + at + HEADER.size), length):
                return offset + at
            at = chunk.find(MAGIC, at + 1)
        if len(chunk) < len(MAGIC):
            break
        offset += len(chunk) - len(MAGIC) + 1
    return None
