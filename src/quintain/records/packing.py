"""How the outbox keeps a record: the payload as its worker sealed it, compressed."""

from collections.abc import Callable
from typing import Final

import zstandard

from quintain.errors import RecordUnreadable
from quintain.records.frames import MAX_PAYLOAD_BYTES
from quintain.records.recorder import Sealed

_LEVEL: Final = 1


def packer() -> Callable[[bytes], bytes]:
    """What compresses payloads, for one thread; to make it takes longer than to compress a record."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress


def unpacked(digest: str, data: bytes) -> Sealed:
    """What an entry of the outbox holds.

    Raises:
        RecordUnreadable: it is damaged, or is not the record of that digest.
    """
    try:
        payload = zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_PAYLOAD_BYTES)
    except zstandard.ZstdError as error:
        raise RecordUnreadable(f"an entry of the outbox that cannot be decompressed: {error}") from error
    sealed = Sealed.read(payload)
    if sealed.envelope.digest != digest:
        raise RecordUnreadable(f"an entry of the outbox that holds {sealed.envelope.digest} and not {digest}")
    return sealed
