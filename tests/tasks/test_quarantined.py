"""A source without its tasks in quarantine: nothing of them can be had, and no index moves."""

import pytest

from quintain.contracts.identity import digest_of
from quintain.errors import QuarantinedTaskError, QuarantineError, UnknownTaskError
from quintain.tasks import AwmDataset, open_pack
from quintain.tasks.quarantine import QuarantineList, Reason
from quintain.tasks.quarantined import QuarantinedSource
from tasks.test_quarantine import entry


@pytest.fixture
def pack() -> AwmDataset:
    return open_pack()


def quarantined(pack: AwmDataset, *places: tuple[str, int | None], **fields: str) -> QuarantinedSource:
    made = [
        entry(name, index, **({"dataset_digest": pack.dataset_digest, "detail": "as shown"} | fields))
        for name, index in places
    ]
    return QuarantinedSource(pack, QuarantineList.of(made), "list.yaml")


def test_a_task_in_quarantine_is_refused_and_the_others_keep_their_places(pack: AwmDataset) -> None:
    source = quarantined(pack, ("parcel_desk_1", 1))
    assert source.scenarios() == pack.scenarios()
    assert source.scenario("parcel_desk_1") == pack.scenario("parcel_desk_1")
    for index in (0, 2, 3, 4, None):
        assert source.task("Parcel Desk 1", index) == pack.task("parcel_desk_1", index)
    refused = "task 1 of parcel_desk_1 is in quarantine (noop_complete): as shown; .* out of list.yaml"
    for ask in (
        lambda: source.task("Parcel Desk 1", 1),
        lambda: source.verifier("parcel_desk_1", 1, "code"),
        lambda: source.verifiers("parcel_desk_1", 1),
        lambda: source.solution("parcel_desk_1", 1),
        lambda: source.policy("parcel_desk_1", 1),
    ):
        with pytest.raises(QuarantinedTaskError, match=refused.replace("(", r"\(").replace(")", r"\)")):
            ask()
    assert source.payload_digest("parcel_desk_1") == pack.payload_digest("parcel_desk_1")


def test_a_scenario_in_quarantine_is_not_listed_and_nothing_of_it_can_be_had(pack: AwmDataset) -> None:
    source = quarantined(pack, ("parcel_desk_1", None), ("parcel_desk_1", 2))
    assert [one.name for one in source.scenarios()] == [
        one.name for one in pack.scenarios() if one.name != "parcel_desk_1"
    ]
    for ask in (
        lambda: source.scenario("Parcel Desk 1"),
        lambda: source.task("Parcel Desk 1"),
        lambda: source.task("parcel_desk_1", 2),
        lambda: source.payload("parcel_desk_1"),
        lambda: source.payload_digest("parcel_desk_1"),
        lambda: source.solution("parcel_desk_1", 0),
    ):
        with pytest.raises(QuarantinedTaskError, match=r"^parcel_desk_1 is in quarantine"):
            ask()
    assert source.report("parcel_desk_1") == pack.report("parcel_desk_1")


def test_who_draws_tasks_gets_those_that_may_be_played(pack: AwmDataset) -> None:
    source = quarantined(pack, ("parcel_desk_1", 1), ("vet_clinic_1", None))
    drawn = [(task.scenario, task.task_idx) for task in source.tasks()]
    everything = [(one.name, index) for one in pack.scenarios() for index in range(len(one.tasks))]
    assert drawn == [
        (name, index) for name, index in everything if name != "vet_clinic_1" and (name, index) != ("parcel_desk_1", 1)
    ]
    assert all(source.quarantined(name, index) is None for name, index in drawn)
    held = source.quarantined("Parcel Desk 1", 1)
    assert held is not None
    assert held.reasons == (Reason.NOOP_COMPLETE,)
    whole = source.quarantined("vet_clinic_1", 7)
    assert whole is not None
    assert whole.task_idx is None
    assert source.quarantined("vet_clinic_1") == whole
    assert source.quarantined("parcel_desk_1") is None
    assert source.quarantined("nowhere_9", 3) is None


def test_what_is_unknown_stays_unknown_and_identity_does_not_change(pack: AwmDataset) -> None:
    source = quarantined(pack, ("parcel_desk_1", 1))
    with pytest.raises(UnknownTaskError):
        source.task("parcel_desk_1", 99)
    with pytest.raises(UnknownTaskError):
        source.scenario("nowhere_9")
    assert source.dataset_digest == pack.dataset_digest
    assert (source.manifest, source.provenance, source.problems) == (pack.manifest, pack.provenance, pack.problems)


def test_entries_about_other_datasets_do_not_apply(pack: AwmDataset) -> None:
    other = digest_of({"another": "dataset"})
    source = quarantined(pack, ("parcel_desk_1", 1), ("long_gone_1", 7), dataset_digest=other)
    assert source.entries == ()
    assert [one.where for one in source.others] == ["task 7 of long_gone_1", "task 1 of parcel_desk_1"]
    assert source.task("parcel_desk_1", 1) == pack.task("parcel_desk_1", 1)


@pytest.mark.parametrize("place", [("nowhere_9", None), ("parcel_desk_1", 99)])
def test_an_entry_that_its_own_dataset_has_no_task_for_is_refused(
    pack: AwmDataset, place: tuple[str, int | None]
) -> None:
    with pytest.raises(QuarantineError, match=r"list\.yaml has an entry that its dataset has no task for"):
        quarantined(pack, place)
