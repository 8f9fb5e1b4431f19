"""The local store: whole blobs or errors, whoever writes at the same time."""

import multiprocessing
import os
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.artifacts import ArtifactStore, LocalArtifactStore
from quintain.contracts import sha256
from quintain.errors import ArtifactCorrupt, ArtifactError, ArtifactMissing, DescriptorError


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "cas")


def blob_file(root: Path, digest: str) -> Path:
    name = digest.removeprefix("sha256:")
    return root / "cas" / "sha256" / name[:2] / name[2:4] / name


def damage(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


@settings(max_examples=30)
@given(data=st.binary(max_size=2000))
def test_what_is_put_comes_back(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    store: ArtifactStore = LocalArtifactStore(tmp_path_factory.mktemp("cas"), fsync=True)
    digest = store.put(data)
    assert digest == sha256(data)
    assert store.has(digest)
    assert store.get(digest) == data
    assert store.path(digest).read_bytes() == data


def test_blobs_are_fanned_out_read_only_and_leave_no_temp_file(store: LocalArtifactStore, tmp_path: Path) -> None:
    digest = store.put(b"one")
    assert store.put(b"one") == digest
    path = blob_file(tmp_path, digest)
    assert store.path(digest) == path
    assert path.stat().st_mode & 0o777 == 0o444
    assert list((tmp_path / "cas" / "tmp").iterdir()) == []


def test_a_missing_blob_is_its_own_error(store: LocalArtifactStore) -> None:
    digest = sha256(b"never stored")
    assert not store.has(digest)
    for read in (store.get, store.path):
        with pytest.raises(ArtifactMissing, match=digest):
            read(digest)


@pytest.mark.parametrize("damaged", [b"", b"on", b"onf", b"one more"])
def test_a_corrupt_blob_is_never_served(store: LocalArtifactStore, tmp_path: Path, damaged: bytes) -> None:
    digest = store.put(b"one")
    damage(blob_file(tmp_path, digest), damaged)
    for read in (store.get, store.path):
        with pytest.raises(ArtifactCorrupt, match="delete the file"):
            read(digest)


def test_a_path_already_verified_is_verified_again_after_a_change(store: LocalArtifactStore, tmp_path: Path) -> None:
    digest = store.put(b"one")
    store.path(digest)
    damage(blob_file(tmp_path, digest), b"two")
    with pytest.raises(ArtifactCorrupt):
        store.path(digest)


def test_putting_again_repairs_a_corrupt_blob(store: LocalArtifactStore, tmp_path: Path) -> None:
    digest = store.put(b"one")
    damage(blob_file(tmp_path, digest), b"xxx")
    assert store.put(b"one") == digest
    assert store.get(digest) == b"one"


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "../../etc/passwd", "sha256:" + "A" * 64, "sha256:" + "a" * 63 + "/", "md5:" + "a" * 64]
)
def test_what_is_not_a_digest_is_refused(store: LocalArtifactStore, digest: str) -> None:
    for call in (store.get, store.path, store.has):
        with pytest.raises(DescriptorError, match="not a digest"):
            call(digest)


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArtifactError, match="cannot store 3 bytes"):
        LocalArtifactStore(tmp_path / "file").put(b"one")


def test_what_a_killed_writer_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    for name, age_s in (("left", 7200), ("fresh", 60)):
        (tmp_path / "tmp" / name).write_bytes(b"half")
        os.utime(tmp_path / "tmp" / name, (time.time() - age_s,) * 2)
    LocalArtifactStore(tmp_path).put(b"one")
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["fresh"]


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file and directory that was flushed, as it was named when it was."""
    paths: list[Path] = []
    flush = os.fsync

    def noted(descriptor: int) -> None:
        paths.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_a_blob_and_the_names_above_it_reach_the_disk_before_put_returns(tmp_path: Path, flushed: list[Path]) -> None:
    store = LocalArtifactStore(tmp_path / "cas", fsync=True)
    folder = blob_file(tmp_path, store.put(b"one")).parent
    assert flushed[0].parent == tmp_path / "cas" / "tmp", "the bytes first, then the name"
    assert flushed[1:] == [folder, *list(folder.parents)[:4]]
    assert flushed[-1] == tmp_path
    flushed.clear()
    other = blob_file(tmp_path, store.put(b"two"))
    assert flushed[1:3] == [other.parent, other.parent.parent]
    assert tmp_path / "cas" not in flushed, "names that are on disk are not flushed again"


def test_what_another_process_has_just_put_is_flushed_too(tmp_path: Path, flushed: list[Path]) -> None:
    path = blob_file(tmp_path, LocalArtifactStore(tmp_path / "cas").put(b"one"))
    assert flushed == []
    LocalArtifactStore(tmp_path / "cas", fsync=True).put(b"one")
    assert flushed == [path, path.parent, *list(path.parent.parents)[:4]]


def test_a_writer_killed_at_any_time_leaves_whole_blobs(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    for delay_s in (0.0, 0.01, 0.05):
        worker = context.Process(target=_put_on_and_on, args=(str(tmp_path), barrier))
        worker.start()
        barrier.wait(30)
        time.sleep(delay_s)
        worker.kill()
        worker.join(30)
    store = LocalArtifactStore(tmp_path)
    blobs = [path for path in (tmp_path / "sha256").rglob("*") if path.is_file()]
    for path in blobs:
        assert sha256(path.read_bytes()) == f"sha256:{path.name}"
    assert store.get(store.put(b"one")) == b"one"


def _put_on_and_on(root: str, barrier: Barrier) -> None:
    store = LocalArtifactStore(Path(root), fsync=True)
    barrier.wait(30)
    for number in range(100_000):
        store.put(number.to_bytes(4, "big") * 20_000)


def _put_many(root: str, barrier: Barrier, fsync: bool) -> None:
    store = LocalArtifactStore(Path(root), fsync=fsync)
    barrier.wait(30)
    for number in range(50):
        data = bytes([number]) * 50_000
        if store.get(store.put(data)) != data:
            raise SystemExit(1)


@pytest.mark.parametrize("fsync", [False, True])
def test_concurrent_writers_of_the_same_blobs_are_safe(tmp_path: Path, fsync: bool) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_put_many, args=(str(tmp_path), barrier, fsync)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert sum(1 for path in (tmp_path / "sha256").rglob("*") if path.is_file()) == 50
    assert list((tmp_path / "tmp").iterdir()) == []
