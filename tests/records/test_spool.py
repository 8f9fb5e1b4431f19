"""The spool: what was acknowledged is there, in order and once, whatever is torn, damaged, full or read again."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.errors import SpoolFull, SpoolUnavailable, StoreBusy
from quintain.records import Spool
from quintain.records.frames import HEADER, MAGIC, frame, frames
from quintain.records.spool_reader import SpoolReader, release


def filled(root: Path, payloads: list[bytes], **options: int) -> Path:
    """A writer's directory, its writer ended."""
    spool = Spool.open(root, **options)
    for payload in payloads:
        spool.append(payload).result(30)
    spool.close()
    return spool.folder


def contents(root: Path, limit: int = 512) -> tuple[list[bytes], SpoolReader]:
    """Everything there is, and its reader, closed."""
    reader = SpoolReader.open(root)
    found: list[bytes] = []
    while deliveries := reader.read(limit):
        found += [one.payload for one in deliveries]
    reader.close()
    return found, reader


@given(payloads=st.lists(st.binary(max_size=200), max_size=20), segment=st.integers(1, 600), limit=st.integers(1, 7))
@settings(max_examples=40)
def test_what_is_appended_comes_back_in_order_and_once(
    payloads: list[bytes], segment: int, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("spool")
    filled(root, payloads, segment_bytes=segment)
    assert contents(root, limit)[0] == payloads
    assert contents(root, limit)[0] == payloads, "what was not acknowledged is handed out again"


async def test_many_that_wait_are_flushed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.open(tmp_path)
    flushes: list[int] = []
    flush = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (flushes.append(descriptor), flush(descriptor))[1])
    await asyncio.gather(*(spool.add(b"%d" % number) for number in range(500)))
    spool.close()
    assert len(flushes) < 100
    assert contents(tmp_path)[0] == [b"%d" % number for number in range(500)]


def test_nothing_is_acknowledged_before_file_and_directory_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool.open(tmp_path)
    outcome: list[Future[None]] = []
    flushed: list[tuple[str, bool]] = []
    flush = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")).name, outcome[0].done() if outcome else False))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    outcome.append(spool.append(b"one"))
    outcome[0].result(30)
    assert flushed == [("00000001.seg", False), (spool.folder.name, False)]
    spool.close()


def test_a_tail_torn_at_any_byte_costs_only_what_was_torn(tmp_path: Path) -> None:
    payloads = [b"first", b"second one", b"third"]
    ends = [sum(len(frame(one)) for one in payloads[:count]) for count in range(4)]
    for size in range(ends[1], ends[3] + 1):
        root = tmp_path / str(size)
        segment = filled(root, payloads) / "00000001.seg"
        os.truncate(segment, size)
        whole = max(count for count, end in enumerate(ends) if end <= size)
        found, reader = contents(root)
        assert found == payloads[:whole]
        torn = size - ends[whole]
        assert [(one.size_bytes, one.torn_tail) for one in reader.damages] == ([(torn, True)] if torn else [])
        assert segment.stat().st_size == ends[whole], "cut to the last whole frame"
        if torn:
            assert reader.damages[0].kept.read_bytes() == frame(payloads[whole])[:torn]
        assert contents(root)[1].damages == [], "and repaired for good"


@given(place=st.integers(0, 10**6), change=st.integers(1, 255), count=st.integers(2, 6), data=st.data())
@settings(max_examples=60)
def test_a_damaged_byte_anywhere_costs_only_its_frame(
    place: int, change: int, count: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("spool")
    payloads = [f"payload {number} ".encode() * 3 for number in range(count)]
    segment = filled(root, payloads) / "00000001.seg"
    raw = bytearray(segment.read_bytes())
    place %= len(raw)
    raw[place] ^= change
    segment.write_bytes(raw)
    hit = place // len(frame(payloads[0]))
    found, reader = contents(root)
    assert found == payloads[:hit] + payloads[hit + 1 :]
    (damage,) = reader.damages
    assert damage.size_bytes == len(frame(payloads[hit]))
    assert damage.torn_tail is (hit == count - 1)
    assert damage.kept.stat().st_size == damage.size_bytes


def test_a_payload_that_looks_like_a_frame_is_none(tmp_path: Path) -> None:
    inner = frame(b"inner")
    segment = filled(tmp_path, [b"a" + inner, b"b"]) / "00000001.seg"
    assert contents(tmp_path)[0] == [b"a" + inner, b"b"]
    assert not any(MAGIC in char.encode() for char in map(chr, range(0xD800))), "no text holds the magic"
    with segment.open("r+b") as file:
        file.seek(HEADER.size)
        file.write(b"X")
    assert contents(tmp_path)[0][-1] == b"b"


def test_what_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    spool.append(b"one").result(30)
    segment = spool.folder / "00000001.seg"
    with segment.open("ab") as file:
        file.write(frame(b"two")[:-1])
    reader = SpoolReader.open(tmp_path)
    assert [one.payload for one in reader.read()] == [b"one"]
    assert reader.read() == []
    assert reader.damages == []
    with segment.open("ab") as file:
        file.write(frame(b"two")[-1:])
    assert [one.payload for one in reader.read()] == [b"two"]
    reader.close()
    spool.close()


def test_reading_goes_on_where_it_was_acknowledged_and_segments_go(tmp_path: Path) -> None:
    payloads = [b"%04d" % number for number in range(50)]
    folder = filled(tmp_path, payloads, segment_bytes=100)
    assert len(list(folder.glob("*.seg"))) == 10
    taken: list[bytes] = []
    while True:
        reader = SpoolReader.open(tmp_path)
        deliveries = reader.read(7)
        reader.read(3)  # handed out, and never acknowledged
        reader.acknowledge(one.position for one in deliveries)
        reader.tidy()
        reader.close()
        if not deliveries:
            break
        taken += [one.payload for one in deliveries]
    assert taken == payloads
    assert not folder.exists(), "nothing is left of a writer that has ended"


def test_a_writer_that_lives_keeps_its_directory(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    reader = SpoolReader.open(tmp_path)
    for number in range(3):
        spool.append(b"%d" % number).result(30)
        (delivery,) = reader.read()
        assert delivery.payload == b"%d" % number
        reader.acknowledge([delivery.position])
        reader.tidy()
    spool.close()
    reader.tidy()
    assert not spool.folder.exists()
    reader.close()


def test_a_torn_acknowledgement_begins_again(tmp_path: Path) -> None:
    folder = filled(tmp_path, [b"one", b"two"])
    (folder / "acknowledged").write_bytes(b"1 2x")
    assert contents(tmp_path)[0] == [b"one", b"two"]


def test_what_a_writer_that_was_killed_while_opening_left_goes(tmp_path: Path) -> None:
    (tmp_path / ".half-made").mkdir(parents=True)
    os.utime(tmp_path / ".half-made", (1, 1))
    reader = SpoolReader.open(tmp_path)
    assert reader.read() == []
    reader.tidy()
    reader.close()
    assert [path.name for path in tmp_path.iterdir()] == ["reader.lock"]


def test_one_reader_at_a_time(tmp_path: Path) -> None:
    reader = SpoolReader.open(tmp_path)
    with pytest.raises(StoreBusy, match="another process"):
        SpoolReader.open(tmp_path)
    closing = threading.Timer(0.2, reader.close)
    closing.start()
    SpoolReader.open(tmp_path, 60.0).close()
    closing.join()


def test_full_is_said_long_before_anything_is_refused(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, max_bytes=10_000, segment_bytes=2_000)
    appended = 0
    while not spool.full:
        spool.append(bytes(500)).result(30)
        appended += 1
    assert 19 <= appended <= 20
    with pytest.raises(SpoolFull, match="see that its records are ingested"):  # noqa: PT012
        for _ in range(100):
            spool.append(bytes(500)).result(30)
            appended += 1
    assert 38 <= appended <= 39
    reader = SpoolReader.open(tmp_path)
    reader.acknowledge(one.position for one in reader.read(10_000))
    spool.append(bytes(500)).result(30)
    assert not spool.full
    spool.close()
    assert len(reader.read()) == 1
    reader.close()


def test_a_full_spool_of_another_writer_counts(tmp_path: Path) -> None:
    filled(tmp_path, [bytes(5000)])
    spool = Spool.open(tmp_path, max_bytes=5000)
    assert spool.full
    spool.close()


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], None]]:
    """Have the next call of a function of `os` fail after it has done half of what it does."""

    def fail(name: str, code: int) -> None:
        whole = getattr(os, name)

        def once(descriptor: int, *rest: bytes) -> None:
            monkeypatch.setattr(os, name, whole)
            if name == "write":
                os.write(descriptor, rest[0][: len(rest[0]) // 2])
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, name, once)

    return fail


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize(("code", "said"), [(28, "its disk is full; make room"), (5, "Input/output error")])
def test_what_could_not_be_written_is_not_acknowledged_and_the_next_is(
    tmp_path: Path, failing: Callable[[str, int], None], name: str, code: int, said: str
) -> None:
    spool = Spool.open(tmp_path)
    spool.append(b"one").result(30)
    reader = SpoolReader.open(tmp_path)
    failing(name, code)
    with pytest.raises(SpoolUnavailable, match=said):
        spool.append(b"two").result(30)
    spool.append(b"two").result(30)
    assert [one.payload for one in reader.read()] == [b"one", b"two"]
    assert sorted(path.name for path in spool.folder.glob("*.seg")) == ["00000001.seg", "00000002.seg"]
    spool.close()
    assert reader.read() == []
    assert reader.damages == []
    reader.close()


def test_what_was_closed_says_so(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, name="../we/ird näme")
    assert "-weirdnme-" in spool.folder.name
    spool.close()
    spool.close()
    with pytest.raises(SpoolUnavailable, match="was closed"):
        spool.append(b"one")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolUnavailable, match="cannot be written"):
        Spool.open(tmp_path / "file")
    with pytest.raises(SpoolUnavailable, match="cannot be read"):
        SpoolReader.open(tmp_path / "file")


@given(payloads=st.lists(st.binary(max_size=50)), cut=st.integers(1, 10))
def test_frames_in_memory(payloads: list[bytes], cut: int) -> None:
    data = b"".join(map(frame, payloads))
    assert list(frames(data)) == payloads
    if payloads:
        with pytest.raises(ValueError, match="no whole frame"):
            list(frames(data[:-cut]))


def test_a_small_spool_that_was_full_is_not_once_all_is_acknowledged(tmp_path: Path) -> None:
    spool, reader = Spool.open(tmp_path, max_bytes=2000), SpoolReader.open(tmp_path)
    for _ in range(3):
        while not spool.full:
            spool.append(bytes(700)).result(30)
        reader.acknowledge(one.position for one in reader.read())
        assert until(lambda: not spool.full), "nothing is appended to a full spool, so no other segment is ever begun"
    assert len(list(spool.folder.glob("*.seg"))) <= 2
    spool.close()
    reader.close()


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_what_is_retained_can_be_read_again_until_it_is_let_go(tmp_path: Path) -> None:
    spool, reader = Spool.open(tmp_path, segment_bytes=100, retained=True), SpoolReader.open(tmp_path)
    payloads = [b"%d" % number * 60 for number in range(6)]
    for payload in payloads:
        spool.append(payload).result(30)

    def taken() -> list[bytes]:
        deliveries = reader.read()
        reader.acknowledge(one.position for one in deliveries)
        reader.tidy()
        return [one.payload for one in deliveries]

    assert taken() == payloads
    release(tmp_path)  # a writer that lives holds on to it
    beside = SpoolReader.beside(tmp_path)
    beside.rewind_wholly()
    assert [one.payload for one in beside.read()] == payloads[-2:]
    spool.close()
    assert taken() == []
    beside.rewind_wholly()
    assert [one.payload for one in beside.read()] == payloads[-2:], "its writer has ended, and it is not let go yet"
    release(tmp_path)
    assert taken() == []
    assert not spool.folder.exists()
    assert beside.read() == []
    reader.close()


def test_beside_a_reader_a_torn_tail_is_passed_over_and_left_to_it(tmp_path: Path) -> None:
    segment = filled(tmp_path, [b"whole", b"torn"]) / "00000001.seg"
    os.truncate(segment, segment.stat().st_size - 2)
    size = segment.stat().st_size
    reader, beside = SpoolReader.open(tmp_path), SpoolReader.beside(tmp_path)
    assert [one.payload for one in beside.read()] == [b"whole"]
    assert segment.stat().st_size == size
    assert beside.damages == []
    assert [one.payload for one in reader.read()] == [b"whole"]
    assert len(reader.damages) == 1
    reader.close()
