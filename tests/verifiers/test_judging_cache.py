"""Kept judgments: the latest in memory, all on disk, and nothing damaged is believed."""

import json
import logging
import stat
from pathlib import Path

import pytest

from quintain.verifiers.judging import Classification, Judgment, json_digest
from quintain.verifiers.judging_cache import JudgmentCache

pytestmark = pytest.mark.asyncio

KEY = json_digest("question")
JUDGMENT = Judgment(classification=Classification.INCOMPLETE, confidence=0.9, reasons=("a", "b"), served_model="m")
COMPLETE = JUDGMENT.model_copy(update={"classification": Classification.COMPLETE})


def file_of(directory: Path) -> Path:
    (found,) = [path for path in directory.rglob("*") if path.is_file()]
    return found


async def test_kept_in_memory_and_no_more_than_so_many() -> None:
    cache = JudgmentCache(keep=3)
    keys = [json_digest(number) for number in range(5)]
    for key in keys[:3]:
        await cache.put(key, JUDGMENT)
    assert await cache.get(keys[0]) == JUDGMENT
    for key in keys[3:]:
        await cache.put(key, JUDGMENT)
    assert [await cache.get(key) is not None for key in keys] == [True, False, False, True, True]


async def test_kept_on_disk_for_the_owner_alone(tmp_path: Path) -> None:
    await JudgmentCache(tmp_path / "judgments").put(KEY, JUDGMENT)
    assert await JudgmentCache(tmp_path / "judgments").get(KEY) == JUDGMENT
    assert await JudgmentCache(tmp_path / "judgments").get(json_digest("another")) is None
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600


def forged(directory: Path) -> bytes:
    entry = json.loads(file_of(directory).read_text())
    entry["judgment"]["classification"] = "complete"
    return json.dumps(entry).encode()


async def test_damaged_entries_are_ignored_with_a_line_and_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await JudgmentCache(tmp_path).put(KEY, JUDGMENT)
    whole = file_of(tmp_path).read_bytes()
    damages = [b"", b"{", b"\xff\xfe", b"[]", whole[:-9], whole + b"x" * 100_000, forged(tmp_path), b"[" * 5000]
    for damage in damages:
        file_of(tmp_path).write_bytes(damage)
        caplog.clear()
        cache = JudgmentCache(tmp_path)
        with caplog.at_level(logging.WARNING):
            assert await cache.get(KEY) is None, damage[:40]
        assert "ignored" in caplog.text
        await cache.put(KEY, JUDGMENT)
        assert file_of(tmp_path).read_bytes() == whole


async def test_an_entry_under_another_key_is_ignored(tmp_path: Path) -> None:
    await JudgmentCache(tmp_path).put(KEY, COMPLETE)
    other = json_digest("another")
    target = tmp_path / other[7:9] / f"{other[7:]}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(file_of(tmp_path).read_bytes())
    assert await JudgmentCache(tmp_path).get(other) is None


async def test_a_disk_that_takes_nothing_fails_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = JudgmentCache(tmp_path / "file" / "judgments")
    with caplog.at_level(logging.WARNING):
        await cache.put(KEY, JUDGMENT)
    assert "was not kept" in caplog.text
    assert await cache.get(KEY) == JUDGMENT
    assert await JudgmentCache(tmp_path / "file" / "judgments").get(KEY) is None
