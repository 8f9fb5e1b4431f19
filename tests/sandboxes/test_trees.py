"""Trees as tars, without a sandbox: whatever is in one, nothing leads out, and what was taken comes back."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from quintain.sandboxes.inside.trees import unpack
from quintain.sandboxes.trees import BaseTree, manifest_of, pack_changes, tar_of
from tars import entries, header


def test_what_is_no_plain_file_or_too_much_is_left_out_and_told(tmp_path: Path) -> None:
    tree = tmp_path / "state" / "tree"
    tree.mkdir(parents=True)
    os.mkfifo(tree / "fifo")
    with socket.socket(socket.AF_UNIX) as box:
        box.bind(str(tree / "socket"))
    (tree / "a").write_bytes(b"a" * 600)
    os.link(tree / "a", tree / "b")
    with (tree / "sparse").open("wb") as file:
        file.truncate(2**40)
    deep = tree / "deep"
    for _ in range(70):
        deep /= "d"
    deep.mkdir(parents=True)
    (tree / "link").symlink_to("/etc")
    root = os.open(tmp_path / "state", os.O_RDONLY)
    changes = pack_changes(root, "tree", tmp_path / "out.tar", None, 1000)
    os.close(root)
    kept = entries(tmp_path / "out.tar")
    assert {name: content for name, (_, content) in kept.items() if not name.startswith("deep")} == {
        "a": "a" * 600,
        "link": "/etc",
    }
    assert max(name.count("/") for name in kept) == 63
    told = [one.partition(": ") for one in changes.left_out]
    assert {name: why for name, _, why in told if not name.startswith("deep")} == {
        "b": "600 bytes, over what is left of the bound",
        "fifo": "no file, folder or symbolic link",
        "socket": "no file, folder or symbolic link",
        "sparse": f"{2**40} bytes, over what is left of the bound",
    }
    assert len(told) == 5
    assert header(tmp_path / "out.tar", "left_out") == changes.left_out


def test_changes_unpack_to_what_they_were_taken_of(tmp_path: Path) -> None:
    files = {"a": (0o644, b"a"), "f/b": (0o755, b"b"), "g/c": (0o600, b"c"), "h/d": (0o644, b"d")}
    tar, manifest = tar_of(files, {"l": "f"})
    assert manifest_of(tar) == manifest
    (tmp_path / "base.tar").write_bytes(tar)
    one, other = tmp_path / "state" / "one", tmp_path / "state" / "other"
    one.mkdir(parents=True)
    other.mkdir()
    unpack(str(one), str(tmp_path / "base.tar"))
    # a file, a folder and a link each become another of these
    (one / "a").unlink()
    (one / "a").mkdir()
    (one / "a" / "x").write_text("x")
    (one / "f" / "b").unlink()
    (one / "f").rmdir()
    (one / "f").write_text("f")
    (one / "l").unlink()
    (one / "l").symlink_to("g")
    (one / "g" / "c").unlink()
    (one / "g").rmdir()
    (one / "g").symlink_to("/etc")
    root = os.open(tmp_path / "state", os.O_RDONLY)
    pack_changes(root, "one", tmp_path / "changes.tar", BaseTree("sha256:0", manifest), 10**6)
    unpack(str(other), str(tmp_path / "changes.tar"), str(tmp_path / "base.tar"))
    for name in ("one", "other"):
        pack_changes(root, name, tmp_path / f"{name}.tar", None, 10**6)
    os.close(root)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "other.tar").read_bytes()
    assert (other / "g").is_symlink()


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//b"])
def test_a_tar_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    (tmp_path / "bad.tar").write_bytes(out.getvalue())
    (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match="is no path within a tree"):
        unpack(str(tmp_path / "in"), str(tmp_path / "bad.tar"))


def test_nothing_is_written_through_a_link_of_a_tar(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        link = tarfile.TarInfo("a")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("a/planted"), io.BytesIO())
    (tmp_path / "bad.tar").write_bytes(out.getvalue())
    (tmp_path / "in").mkdir()
    with pytest.raises(OSError, match="planted"):
        unpack(str(tmp_path / "in"), str(tmp_path / "bad.tar"))
    assert not (tmp_path / "planted").exists()
