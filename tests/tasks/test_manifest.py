"""Entries and manifests: what a digest depends on, and what it does not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quintain.contracts.identity import digest_of
from quintain.errors import RegistryError, UnknownTaskError
from quintain.tasks import AwmDataset, layout, open_pack, verifier_bundle
from quintain.tasks.manifest import PoolManifest, TaskEntry, entries_of
from quintain.tasks.pools import Pool
from tasks.shelf import Shelf

ENTRIES = entries_of(Shelf(lamps=range(12), chairs=range(5, 9))).entries


@given(st.permutations(ENTRIES), st.sampled_from(Pool))
def test_the_order_in_which_entries_are_given_does_not_matter(shuffled: list[TaskEntry], pool: Pool) -> None:
    manifest = PoolManifest.of(pool, shuffled)
    assert manifest == PoolManifest.of(pool, ENTRIES)
    assert manifest.digest == PoolManifest.of(pool, ENTRIES).digest
    assert [entry.task_idx for entry in manifest.entries] == [*range(4), *range(12)]


@given(st.sets(st.sampled_from(ENTRIES)), st.sets(st.sampled_from(ENTRIES)))
def test_equal_digests_are_equal_contents(one: set[TaskEntry], other: set[TaskEntry]) -> None:
    digests = PoolManifest.of(Pool.DEV, one).digest, PoolManifest.of(Pool.DEV, other).digest
    assert (digests[0] == digests[1]) == (one == other)


def test_a_manifest_reads_back_from_its_document() -> None:
    manifest = PoolManifest.of(Pool.REGRESSION, ENTRIES)
    assert PoolManifest.read(manifest.document, "it") == manifest


def test_a_task_stands_once() -> None:
    with pytest.raises(ValidationError, match="lamps/0 stands twice"):
        PoolManifest.of(Pool.DEV, [*ENTRIES, ENTRIES[0]])


def _spoilt(**changes: Any) -> bytes:
    document = json.loads(PoolManifest.of(Pool.DEV, ENTRIES[:1]).document)
    document["entries"][0] |= changes
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "no pool manifest"),
        (b"[]", "no pool manifest"),
        (b'{"schema_version": 2, "pool": "dev", "entries": []}', "schema_version"),
        (b'{"schema_version": 1, "pool": "test", "entries": []}', "pool"),
        (_spoilt(text="sha256:" + "0" * 64), "digest of lamps/0 is not that of its parts"),
        (_spoilt(task="lamps/1"), "lamps/1 is not task 0"),
        (_spoilt(colour="red"), "colour"),
    ],
)
def test_what_is_no_manifest_is_told(data: bytes, told: str) -> None:
    with pytest.raises(RegistryError, match=r"version 3 of dev is no pool manifest") as caught:
        PoolManifest.read(data, "version 3 of dev")
    assert told in str(caught.value)


def test_an_entry_has_the_digests_of_the_episodes_descriptor() -> None:
    with open_pack() as pack:
        entry = TaskEntry.of(pack, "Vet Clinic 1", 3)
        assert entry.task == "vet_clinic_1/3"
        assert entry.payload == pack.payload_digest("vet_clinic_1")
        assert entry.verifiers == digest_of(verifier_bundle(pack.verifiers("vet_clinic_1", 3)))
        policy = pack.policy("vet_clinic_1", 3)
        assert entry.policy == (policy and policy.digest)


def test_content_does_not_depend_on_the_place() -> None:
    entries = {one.task: one for one in entries_of(Shelf(lamps=[1, 2], chairs=[2])).entries}
    assert entries["lamps/1"].digest == entries["chairs/0"].digest != entries["lamps/0"].digest


@pytest.mark.parametrize(
    ("file", "part"),
    [(layout.ENVS, "payload"), (layout.TASKS, "text"), ("gen_verifier.pure_code.jsonl", "verifiers")],
)
def test_every_part_of_a_task_is_in_its_digest(make_dataset: Callable[..., Path], file: str, part: str) -> None:
    folder = make_dataset(scenarios=1)
    with AwmDataset.open(folder) as before:
        entry = TaskEntry.of(before, "corner_shop_0", 2)
    text = (folder / file).read_text()
    changed = {
        "payload": ("# Corner", "# Another"),
        "text": ("Task 2 of", "Item 2 of"),
        "verifiers": ("turn 2", "turn 7"),
    }
    (folder / file).write_text(text.replace(*changed[part]))
    with AwmDataset.open(folder) as after:
        again = TaskEntry.of(after, "corner_shop_0", 2)
    assert again.digest != entry.digest
    assert part in entry.changes(again)


def test_a_task_that_cannot_be_read_is_told_and_the_others_are_taken(
    make_dataset: Callable[..., Path], append: Callable[..., int]
) -> None:
    folder = make_dataset(scenarios=2)
    rows = (folder / layout.ENVS).read_text().splitlines(keepends=True)
    (folder / layout.ENVS).write_text("".join(row for row in rows if "Corner Shop 1" not in row))
    with AwmDataset.open(folder) as dataset:
        found = entries_of(dataset)
    assert {one.scenario for one in found.entries} == {"corner_shop_0"}
    assert len(found.unusable) == 10
    assert all("corner_shop_1" in one.why for one in found.unusable)


def test_scenarios_by_name() -> None:
    found = entries_of(Shelf(lamps=[1], chairs=[2]), ["Chairs", "chairs"]).entries
    assert [one.task for one in found] == ["chairs/0"]
    with pytest.raises(UnknownTaskError, match="tables"):
        entries_of(Shelf(lamps=[1]), ["tables"])
