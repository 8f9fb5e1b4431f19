"""The index: built once, reopened without reading the data, safe against changes and against each other."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from quintain.errors import DatasetError
from quintain.tasks import AwmDataset, layout

MakeDataset = Callable[..., Path]


def bytes_read_by(action: Callable[[], None]) -> int:
    """Bytes this process asked the kernel for while the action ran, by the kernel's own count."""

    def count() -> int:
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(fields["rchar"])

    before = count()
    action()
    return count() - before


def index_files(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


def test_a_thousand_scenarios_are_read_once_and_reopened_without_reading_them(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    folder, cache = make_dataset(1000, padding=24_000), tmp_path / "cache"
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size > 24_000_000
    seen: dict[str, int] = {}

    def progress(file: str, done: int, total: int) -> None:
        assert seen.get(file, 0) <= done <= total
        seen[file] = done

    built = bytes_read_by(lambda: AwmDataset.open(folder, cache, progress).close())
    assert built >= size
    assert seen == {name: (folder / name).stat().st_size for name in layout.FILES}

    def refuse(file: str, done: int, total: int) -> None:
        raise AssertionError(f"{file} was read again")

    def reopen() -> None:
        with AwmDataset.open(folder, cache, refuse) as source:
            assert source.payload("Corner Shop 617")["code"].startswith("# Corner Shop 617 ")
            assert source.task("corner_shop_617", 4).verifiers == ("code", "sql")

    assert bytes_read_by(reopen) < size / 50
    with AwmDataset.open(folder, cache, refuse) as source:
        assert len(source.scenarios()) == 1000


def test_a_reopened_index_serves_lists_and_reports_without_the_data(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder, cache = make_dataset(4), tmp_path / "cache"
    AwmDataset.open(folder, cache).close()
    stamps = {path: path.stat() for path in folder.iterdir()}
    for path, stamp in stamps.items():
        path.write_bytes(b"#" * stamp.st_size)  # what a reader would see if it looked
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with AwmDataset.open(folder, cache) as source:
        assert [scenario.title for scenario in source.scenarios()] == [f"Corner Shop {number}" for number in range(4)]
        assert source.report("corner shop 3").verifiers == {"code": 10, "sql": 10}
        with pytest.raises(DatasetError, match="is not the file that was indexed; open the dataset again"):
            source.payload("corner shop 3")
    with AwmDataset.open(folder, cache) as source:
        assert source.scenarios() == ()
        assert len(source.problems) == len(layout.FILES)


def test_a_changed_file_is_indexed_anew_and_the_old_index_goes(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder, cache = make_dataset(2), tmp_path / "cache"
    AwmDataset.open(folder, cache).close()
    (first,) = index_files(cache)
    (cache / "awm-left-by-a-kill.tmp").write_bytes(b"half")
    os.utime(cache / "awm-left-by-a-kill.tmp", (0, 0))
    with (folder / layout.SCENARIO).open("a") as file:
        file.write('{"name": "New 1", "description": "late"}\n')
    with AwmDataset.open(folder, cache) as source:
        assert source.scenario("new 1").description == "late"
    (second,) = index_files(cache)
    assert second != first
    assert not list(cache.glob("*.tmp"))


def test_folders_share_a_cache_directory(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder, cache = make_dataset(2), tmp_path / "cache"
    other = tmp_path / "other"
    folder.rename(other)
    AwmDataset.open(other, cache).close()
    again = make_dataset(3)
    AwmDataset.open(again, cache).close()
    assert len(index_files(cache)) == 2
    with AwmDataset.open(other, cache) as source:
        assert len(source.scenarios()) == 2


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 500, None])
def test_a_damaged_index_is_built_again(make_dataset: MakeDataset, tmp_path: Path, damage: bytes | None) -> None:
    folder, cache = make_dataset(2), tmp_path / "cache"
    AwmDataset.open(folder, cache).close()
    (index,) = index_files(cache)
    whole = index.read_bytes()
    index.write_bytes(whole[: len(whole) // 3] if damage is None else damage)
    with AwmDataset.open(folder, cache) as source:
        assert source.payload("corner shop 1")["scenario"] == "corner_shop_1"
    assert index_files(cache) == [index]


def test_a_file_that_vanishes_is_a_clear_error(make_dataset: MakeDataset) -> None:
    folder = make_dataset(1)
    with AwmDataset.open(folder) as source:
        (folder / layout.ENVS).unlink()
        with pytest.raises(DatasetError, match=r"cannot read .*gen_envs\.jsonl: No such file"):
            source.payload("corner shop 0")


def test_a_cache_that_cannot_be_written_is_a_clear_error(make_dataset: MakeDataset, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    with pytest.raises(DatasetError, match=f"cannot keep an index in {blocked}/cache"):
        AwmDataset.open(make_dataset(1), blocked / "cache")


def test_a_closed_dataset_says_so(make_dataset: MakeDataset) -> None:
    source = AwmDataset.open(make_dataset(1))
    source.close()
    source.close()
    with pytest.raises(DatasetError, match="was closed; open it again"):
        source.scenario("corner shop 0")


def test_a_file_that_changes_while_it_is_read_is_refused(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder, cache = make_dataset(1), tmp_path / "cache"

    def meddle(file: str, done: int, total: int) -> None:
        if file == layout.FILES[-1]:
            (folder / layout.SCENARIO).write_text("{}\n")

    with pytest.raises(DatasetError, match="changed while they were indexed"):
        AwmDataset.open(folder, cache, meddle)
    assert index_files(cache) == []


def _open(folder: str, cache: str, barrier: Barrier, answers: Any) -> None:
    barrier.wait(20)
    with AwmDataset.open(Path(folder), Path(cache)) as source:
        answers.put((source.dataset_digest, source.payload("corner shop 7")["scenario"]))


def test_processes_that_build_at_once_agree(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder, cache = make_dataset(200, padding=5_000), tmp_path / "cache"
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_open, args=(str(folder), str(cache), barrier, answers)) for _ in range(3)]
    for worker in workers:
        worker.start()
    got = {answers.get(timeout=30) for _ in workers}
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with AwmDataset.open(folder, cache) as source:
        assert got == {(source.dataset_digest, "corner_shop_7")}
    assert len(index_files(cache)) == 1
