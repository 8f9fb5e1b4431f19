"""Several sources served as one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quintain.episodes import EpisodeRequest
from quintain.episodes.base import resolve
from quintain.errors import DatasetError, QuarantinedTaskError, QuarantineError, UnknownTaskError
from quintain.tasks import PackSource, UnitedSource, open_named, open_pack, shipped_packs, united
from quintain.tasks.quarantine import Entry, QuarantineList, Reason
from quintain.tasks.quarantined import QuarantinedSource

from .packs.conftest import make_pack as make_pack

MakePack = Callable[..., Path]


@pytest.fixture
def both(make_pack: MakePack) -> UnitedSource:
    source = united([lambda: PackSource.open(make_pack()), open_pack])
    assert isinstance(source, UnitedSource)
    return source


def entry(source: UnitedSource, scenario: str, task_idx: int | None, digest: str | None = None) -> Entry:
    of = digest or source.dataset_of(scenario)
    return Entry.model_validate(
        {"scenario": scenario, "task_idx": task_idx, "reasons": [Reason.BY_HAND], "dataset_digest": of,
         "found_at": "2026-02-10T00:00:00Z"}
    )  # fmt: skip


def test_each_scenario_is_its_own_sources(both: UnitedSource) -> None:
    pack, awm = both.parts
    assert [one.name for one in both.scenarios()] == [one.name for part in both.parts for one in part.scenarios()]
    assert both.scenario("Shop").kind == "mock"
    for part, name, index in ((pack, "shop", 0), (awm, "vet_clinic_1", 3)):
        assert both.dataset_of(name) == part.dataset_digest
        assert both.payload_digest(name) == part.payload_digest(name)
        assert both.payload(name) == part.payload(name)
        assert both.task(name, index, 9) == part.task(name, index, 9)
        assert both.solution(name, index, 9) == part.solution(name, index, 9)
        assert both.verifiers(name, index) == part.verifiers(name, index)
        assert both.template(name, index) == part.template(name, index)
        assert both.policy(name, index) == part.policy(name, index)
        assert both.report(name) == part.report(name)
    assert both.dataset_digest not in {part.dataset_digest for part in both.parts}


def test_an_episode_is_the_same_whatever_is_served_beside_it(both: UnitedSource) -> None:
    request = EpisodeRequest(scenario="vet_clinic_1", task_idx=3, seed=4, model_digest="m")
    with open_pack() as alone:
        assert resolve(both, request) == resolve(alone, request)


def test_one_source_is_not_wrapped(make_pack: MakePack) -> None:
    assert isinstance(united([lambda: PackSource.open(make_pack())]), PackSource)


def test_scenarios_of_one_name_are_refused_and_nothing_stays_open(make_pack: MakePack) -> None:
    closed = []

    class Told(PackSource):
        def close(self) -> None:
            closed.append(self)

    with pytest.raises(DatasetError, match=r"scenarios of one name in several sources: shop \("):
        united([lambda: Told.open(make_pack()), lambda: Told.open(make_pack())])
    assert len(closed) == 2
    with pytest.raises(DatasetError, match="is no pack"):
        united([lambda: Told.open(make_pack()), lambda: open_named("nowhere")])
    assert len(closed) == 3


def test_what_none_of_them_has(both: UnitedSource) -> None:
    with pytest.raises(UnknownTaskError, match="did you mean shop"):
        both.task("shopp")
    with pytest.raises(UnknownTaskError, match="among the 6 there are"):
        both.payload("nowhere")


def test_quarantine_is_about_each_scenarios_own_dataset(both: UnitedSource) -> None:
    listed = [entry(both, "shop", 1), entry(both, "vet_clinic_1", 0)]
    kept = QuarantinedSource(both, QuarantineList.of([*listed, entry(both, "shop", 0, "sha256:" + "0" * 64)]))
    assert (len(kept.entries), len(kept.others)) == (2, 1)
    kept.task("shop", 0)
    for name, index in (("shop", 1), ("vet_clinic_1", 0)):
        for ask in (kept.task, kept.verifiers, kept.solution, kept.policy, kept.template):
            with pytest.raises(QuarantinedTaskError):
                ask(name, index)
    for wrong in (entry(both, "shop", 2), entry(both, "shop", 0, both.dataset_of("vet_clinic_1"))):
        with pytest.raises(QuarantineError):
            QuarantinedSource(both, QuarantineList.of([wrong]))


def test_the_shipped_packs_open_by_name() -> None:
    assert shipped_packs()[0] == "awm"
    for name in shipped_packs():
        with open_named(name) as source:
            assert source.scenarios()


def test_a_name_that_is_no_pack(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"none of those shipped \(awm"):
        open_named(str(tmp_path))
