"""What the tars of trees hold, for tests."""

import json
import tarfile
from pathlib import Path
from typing import Any


def entries(tar: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of what a tar holds; of links where they lead, of folders nothing."""
    found = {}
    with tarfile.open(tar) as archive:
        for member in archive:
            content = archive.extractfile(member).read().decode(errors="replace") if member.isreg() else member.linkname  # type: ignore[union-attr]
            found[member.name] = (member.mode, content)
            assert (member.mtime, member.uid, member.gid, member.uname) == (0, 1000, 1000, "")
    assert list(found)[1:] == sorted(list(found)[1:])
    assert found.pop(".") == (0o700, "")
    return found


def header(tar: Path, name: str) -> Any:
    """What a global header of the platform says."""
    with tarfile.open(tar) as archive:
        return json.loads(archive.pax_headers.get(f"QUINTAIN.{name}", "null"))
