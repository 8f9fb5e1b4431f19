"""How records are written and read: canonical, by version, and never refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts.identity import MAX_SEED, digest_of, sha256
from quintain.contracts.record import EpisodeRecord
from quintain.errors import RecordUnreadable
from quintain.records.form import NEWEST, UPGRADERS, canonical, document_of, read_record, record_bytes, record_digest
from quintain.records.form import upgraded as upgrade
from records.recording import a_record, a_step

GOLDEN = Path(__file__).with_name("golden")

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SEED, MAX_SEED)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(value=VALUES)
def test_the_fast_writer_writes_what_jcs_says(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_spelled_as_jcs_says(value: float) -> None:
    assert canonical([value]) == rfc8785.dumps([value])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2**53, "9007199254740992"),
        (-(10**40), "-1" + "0" * 40),
        (float("nan"), "null"),
        (float("-inf"), "null"),
        ("a\ud800b", '"a\ufffdb"'),
        ({"k\udfff": 1}, '{"k\ufffd":1}'),
        ([1e21, 1e-7, -0.0, 1e16, 123456789012345680000.0], "[1e+21,1e-7,0,10000000000000000,123456789012345680000]"),
    ],
)
def test_what_jcs_cannot_carry_is_written_all_the_same(value: Any, written: str) -> None:
    assert canonical(value).decode() == written
    assert canonical(json.loads(canonical(value))) == canonical(value)


def test_the_digest_is_that_of_the_canonical_json() -> None:
    record = a_record()
    assert record_digest(record) == digest_of(document_of(record)) == sha256(record_bytes(record))


def test_a_record_comes_back_as_it_was() -> None:
    record = a_record(steps=2, task=None)
    assert read_record(record_bytes(record)) == record


def test_what_need_not_be_given_is_absent_and_what_an_agent_gave_stays() -> None:
    record = a_record(steps=0, environment_class_id=None)
    record = record.model_copy(update={"steps": (a_step(1, arguments={"a": None}, error=None),)})
    document = document_of(record)
    assert document["environment_class_id"] is None, "a field without a default is there"
    assert "failure_owner" not in document
    assert document["steps"][0]["arguments"] == {"a": None}
    assert "error" not in document["steps"][0]
    assert read_record(canonical(document)) == record


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_every_version_that_was_ever_written_can_be_read(version: int) -> None:
    path = GOLDEN / f"record-{version}.json"
    record = read_record(path.read_bytes())
    assert record.schema_version == NEWEST
    told = json.loads(path.read_text())
    assert told["schema_version"] == version
    if version == NEWEST:  # this release writes it as the golden file has it, to the byte
        assert record_bytes(record) == path.read_bytes().rstrip(b"\n")
        assert record_digest(record) == "sha256:3df14ac4bfe2f5fa174fc7e57f6a3926fd11daa887fa2fe631c5443e4c0de8f3"
        fields = set(EpisodeRecord.model_fields)
        assert fields - told.keys() <= {"failure_owner"}, "the golden file has every field there is"


def test_each_older_version_has_what_makes_the_next_of_it() -> None:
    assert set(UPGRADERS) == set(range(1, NEWEST))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"schema_version": NEWEST + 1}, rf"version {NEWEST + 1}, and the newest known here is {NEWEST}"),
        ({"schema_version": 0}, "version 0, which was never written"),
        ({"schema_version": "1"}, "schema_version"),
        ({"schema_version": None}, "needs a schema_version"),
        ({"seed": -1}, "seed"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_a_record_of_an_unknown_version_is_refused_with_the_reason(change: dict[str, Any], match: str) -> None:
    with pytest.raises(RecordUnreadable, match=match) as caught:
        read_record(canonical({**document_of(a_record()), **change}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_record_is_refused(text: bytes) -> None:
    with pytest.raises(RecordUnreadable, match="not a record"):
        read_record(text)


def test_upgraders_are_chained() -> None:
    """The chain itself, on documents of versions that are this test's own."""
    chain = {
        1: lambda document: {**document, "seen": [1]},
        2: lambda document: {**document, "seen": [*document["seen"], 2]},
    }
    assert upgrade({"schema_version": 1}, chain, 3) == {"schema_version": 3, "seen": [1, 2]}
    assert upgrade({"schema_version": 3}, chain, 3) == {"schema_version": 3}
    with pytest.raises(RecordUnreadable, match="version 0, which was never written; known: 1, 2, 3"):
        upgrade({"schema_version": 0}, chain, 3)
