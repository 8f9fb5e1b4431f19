"""The quarantine list: what is written is read again, what is merged is kept, and what is wrong is said."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts.identity import digest_of
from quintain.errors import QuarantineError
from quintain.tasks.quarantine import MAX_DETAIL, MEANINGS, Entry, QuarantineList, Reason
from quintain.tasks.quarantine_file import read_quarantine, update_quarantine

HERE, ELSEWHERE = digest_of({"data": "here"}), digest_of({"data": "elsewhere"})
THEN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def entry(scenario: str = "notes_1", task_idx: int | None = 0, *reasons: Reason, **fields: Any) -> Entry:
    plain: dict[str, Any] = {"dataset_digest": HERE, "found_at": THEN}
    return Entry(scenario=scenario, task_idx=task_idx, reasons=reasons or (Reason.NOOP_COMPLETE,), **(plain | fields))


def entries(digests: tuple[str, ...] = (HERE, ELSEWHERE)) -> st.SearchStrategy[Entry]:
    words = st.text(st.characters(exclude_categories=()), max_size=40)
    return st.builds(
        Entry,
        scenario=st.sampled_from(["notes_1", "no", "1e3", "null", "2026_01_01", "Corner Shop 1", "~"]).map(
            lambda name: name.replace("~", "yes")
        ),
        task_idx=st.none() | st.integers(0, 3),
        reasons=st.lists(st.sampled_from(list(Reason)), min_size=1, max_size=4).map(tuple),
        detail=words,
        note=words,
        dataset_digest=st.sampled_from(digests),
        verifier_digest=st.none() | st.sampled_from([digest_of({"v": 1}), digest_of({"v": 2})]),
        found_at=st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
    )


def lists(digests: tuple[str, ...] = (HERE, ELSEWHERE)) -> st.SearchStrategy[QuarantineList]:
    return st.lists(entries(digests), max_size=8, unique_by=lambda one: one.key).map(QuarantineList.of)


FOUND = st.lists(entries((HERE,)), max_size=6, unique_by=lambda one: one.key)
PLACES = st.lists(st.tuples(st.sampled_from(["notes_1", "no", "corner_shop_1"]), st.none() | st.integers(0, 3)))


@pytest.mark.parametrize("form", ["json", "yaml"])
@given(quarantine=lists())
def test_what_is_written_is_read_again(form: Any, quarantine: QuarantineList) -> None:
    data = quarantine.written(form)
    again = QuarantineList.read(data, form)
    assert again == quarantine
    assert again.written(form) == data


@given(quarantine=lists(), found=FOUND, cleared=PLACES, release=st.booleans())
def test_merging_a_second_time_changes_nothing(
    quarantine: QuarantineList, found: list[Entry], cleared: Any, release: bool
) -> None:
    cleared = set(cleared) - {one.place for one in found}
    once = quarantine.merged(found, HERE, cleared, release=release)
    later = [one.model_copy(update={"found_at": THEN + timedelta(days=400)}) for one in found]
    assert once.merged(later, HERE, cleared, release=release).written("yaml") == once.written("yaml")


@given(quarantine=lists(), found=FOUND, cleared=PLACES)
def test_without_release_nothing_is_taken_off(quarantine: QuarantineList, found: list[Entry], cleared: Any) -> None:
    merged = {one.key: one for one in quarantine.merged(found, HERE, cleared).entries}
    for one in (*quarantine.entries, *found):
        assert set(one.reasons) <= set(merged[one.key].reasons)
    assert merged.keys() == {one.key for one in (*quarantine.entries, *found)}


@given(quarantine=lists(), found=FOUND, cleared=PLACES, release=st.booleans())
def test_merging_keeps_notes_what_was_put_there_by_hand_and_other_datasets(
    quarantine: QuarantineList, found: list[Entry], cleared: Any, release: bool
) -> None:
    merged = quarantine.merged(found, HERE, cleared, release=release)
    after = {one.key: one for one in merged.entries}
    assert merged.about(ELSEWHERE) == quarantine.about(ELSEWHERE)
    for one in quarantine.entries:
        if Reason.BY_HAND in one.reasons:
            assert Reason.BY_HAND in after[one.key].reasons
        if one.key in after:
            assert after[one.key].note == one.note


def test_release_takes_off_what_passes_now_and_reasons_that_are_gone() -> None:
    quarantine = QuarantineList.of(
        [entry("notes_1", 0), entry("notes_1", 1, Reason.NOOP_COMPLETE, Reason.WARM_DIFFERS), entry("notes_1", None)]
    )
    found = [entry("notes_1", 1, Reason.WARM_DIFFERS, detail="found again", found_at=THEN + timedelta(days=1))]
    merged = quarantine.merged(found, HERE, {("notes_1", 0)}, release=True)
    assert [(one.task_idx, one.reasons) for one in merged.entries] == [
        (None, (Reason.NOOP_COMPLETE,)),
        (1, (Reason.WARM_DIFFERS,)),
    ]
    assert merged.entries[1].found_at == THEN + timedelta(days=1)


def test_what_is_found_again_keeps_its_date_and_words_and_new_reasons_are_added() -> None:
    quarantine = QuarantineList.of([entry(detail="as first seen", note="asked its author")])
    later = THEN + timedelta(days=3)
    again = quarantine.merged([entry(detail="other words", found_at=later)], HERE)
    assert again == quarantine
    (more,) = quarantine.merged(
        [entry("notes_1", 0, Reason.LEFT_BEHIND, detail="a file", found_at=later)], HERE
    ).entries
    assert more.reasons == (Reason.LEFT_BEHIND, Reason.NOOP_COMPLETE)
    assert (more.detail, more.note, more.found_at) == ("as first seen; a file", "asked its author", later)


def test_an_entry_is_put_into_shape() -> None:
    zone = timezone(timedelta(hours=2))
    one = entry(
        "Corner Shop 1", 2, Reason.WARM_DIFFERS, Reason.LEFT_BEHIND, Reason.WARM_DIFFERS, detail="\ud83d" + "x" * 9999,
        found_at=datetime(2026, 3, 1, 14, 0, 0, 999, tzinfo=zone),
    )  # fmt: skip
    assert (one.scenario, one.where) == ("corner_shop_1", "task 2 of corner_shop_1")
    assert one.reasons == (Reason.LEFT_BEHIND, Reason.WARM_DIFFERS)
    assert len(one.detail) == MAX_DETAIL
    assert one.detail.startswith("\\ud83dxxx")
    assert one.found_at == THEN


HAND_WRITTEN = f"""
# people may write this
schema_version: 1
entries:
- scenario: Corner Shop 1
  task_idx: null
  reasons: [by_hand]
  note: too easy
  dataset_digest: {HERE}
  found_at: 2026-03-01T12:00:00Z
"""


def test_a_list_written_by_hand_is_read() -> None:
    (one,) = QuarantineList.read(HAND_WRITTEN.encode(), "yaml").entries
    assert (one.place, one.reasons, one.note, one.found_at) == (
        ("corner_shop_1", None), (Reason.BY_HAND,), "too easy", THEN,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("schema_version: 1", "schema_version: 2", "schema_version"),
        ("schema_version: 1\n", "", "schema_version is missing"),
        ("entries:", "entires:", "entries is missing"),
        ("  task_idx: null\n", "", "entries.0.task_idx is missing"),
        ("task_idx: null", "task_idx: '0'", "entries.0.task_idx"),
        ("task_idx: null", "task_idx: true", "entries.0.task_idx"),
        ("task_idx: null", "task_idx: -1", "entries.0.task_idx"),
        ("[by_hand]", "[bored]", "bored"),
        ("[by_hand]", "[]", "entries.0.reasons"),
        ("[by_hand]", "by_hand", "entries.0.reasons"),
        ("scenario: Corner Shop 1", "scenario: '!!'", "letters or digits"),
        ("scenario: Corner Shop 1", "scenario: no", "entries.0.scenario"),
        ("note: too easy", "notes: too easy", "entries.0.notes is unknown"),
        ("note: too easy", "scenario: Other", "'scenario' twice"),
        (HERE, "sha256:00", "entries.0.dataset_digest"),
        ("12:00:00Z", "12:00:00", "entries.0.found_at"),
        ("[by_hand]", "[by_hand", "not readable as YAML"),
        (HAND_WRITTEN, "", "the document"),
        (HAND_WRITTEN, "[]", "the document"),
        (HAND_WRITTEN, "\x00", "not readable as YAML"),
        (HAND_WRITTEN, HAND_WRITTEN + HAND_WRITTEN.partition("entries:\n")[2], "two entries"),
    ],
)
def test_a_malformed_list_is_refused_and_says_where(old: str, new: str, told: str) -> None:
    assert old in HAND_WRITTEN
    with pytest.raises(QuarantineError) as refused:
        QuarantineList.read(HAND_WRITTEN.replace(old, new).encode(), "yaml", "tasks.yaml")
    assert "tasks.yaml" in str(refused.value)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"{", b'{"schema_version": 1, "schema_version": 1, "entries": []}', b"\xff"])
def test_malformed_json_is_refused(data: bytes) -> None:
    with pytest.raises(QuarantineError, match="JSON"):
        QuarantineList.read(data, "json")


def add(*more: Entry) -> Callable[[QuarantineList], QuarantineList]:
    return lambda quarantine: quarantine.merged(more, HERE)


@pytest.mark.parametrize("name", ["list.yaml", "list.yml", "list.JSON"])
def test_a_file_is_made_and_updated(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert update_quarantine(path, add()) == read_quarantine(path) == QuarantineList.of()
    update_quarantine(path, add(entry()))
    update_quarantine(path, add(entry("notes_1", 1)))
    assert [one.task_idx for one in read_quarantine(path).entries] == [0, 1]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_file_is_left_alone_while_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(HAND_WRITTEN)
    path.chmod(0o640)
    before = path.stat()
    update_quarantine(path, add())
    assert path.read_text() == HAND_WRITTEN
    assert path.stat().st_ino == before.st_ino
    update_quarantine(path, add(entry()))
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(read_quarantine(path).entries) == 2


def test_a_link_to_a_list_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    link.symlink_to(real)
    update_quarantine(link, add(entry()))
    assert link.is_symlink()
    assert len(read_quarantine(real).entries) == 1


def test_a_file_that_cannot_be_used_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("entries: none")
    with pytest.raises(QuarantineError, match=r"list\.yaml is no quarantine list"):
        update_quarantine(path, add(entry()))
    assert path.read_text() == "entries: none"
    with pytest.raises(QuarantineError, match="cannot be read"):
        read_quarantine(tmp_path / "absent.yaml")
    with pytest.raises(QuarantineError, match=r"\.yaml or \.json"):
        read_quarantine(tmp_path / "list.txt")
    with pytest.raises(QuarantineError, match="cannot be written"):
        update_quarantine(tmp_path / "nowhere" / "list.yaml", add())


ADDS_ONE = """
import sys
from pathlib import Path
from quintain.tasks.quarantine import Entry
from quintain.tasks.quarantine_file import update_quarantine

path, number, digest = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
entry = Entry(
    scenario="notes_1", task_idx=number, reasons=("by_hand",), dataset_digest=digest, found_at="2026-03-01T12:00:00Z"
)
update_quarantine(path, lambda quarantine: quarantine.merged([entry], digest))
"""


def test_several_processes_may_update_one_list(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    others = [subprocess.Popen([sys.executable, "-c", ADDS_ONE, path, str(number), HERE]) for number in range(6)]
    assert [other.wait(60) for other in others] == [0] * 6
    assert [one.task_idx for one in read_quarantine(path).entries] == list(range(6))


def test_every_reason_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Reason)
    assert json.loads(json.dumps(list(Reason))) == [reason.value for reason in Reason]
