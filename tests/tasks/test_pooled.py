"""A source that shows some pools only."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quintain.errors import PoolError, QuarantinedTaskError, QuintainError, RegistryError, UnknownTaskError
from quintain.tasks.base import TaskSource
from quintain.tasks.pooled import PooledSource, PoolScope
from quintain.tasks.pools import Pool
from quintain.tasks.quarantine import QuarantineList
from quintain.tasks.quarantined import QuarantinedSource
from quintain.tasks.registry import TaskRegistry
from tasks.shelf import Shelf

View = Callable[..., PooledSource]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(lamps=range(6), chairs=[10, 11], doors=[20, 21], books=[30], new=[40])


@pytest.fixture
def registry(tmp_path: Path, shelf: Shelf) -> TaskRegistry:
    """lamps 1 and 3 in train, the others in dev; chairs in regression; doors in blind; books in train; new nowhere."""
    made = TaskRegistry.create(tmp_path / "registry")
    places = {"lamps": Pool.DEV, "chairs": Pool.REGRESSION, "doors": Pool.BLIND, "books": Pool.TRAIN}
    for scenario, pool in places.items():
        made.import_tasks(shelf, pool, by="ann", scenarios=[scenario])
    made.move(["lamps/1", "lamps/3"], Pool.TRAIN, by="ann", why="x")
    return made


@pytest.fixture
def view(registry: TaskRegistry, shelf: Shelf) -> View:
    def of(*pools: Pool, milestone: str | None = None, source: TaskSource | None = None) -> PooledSource:
        return PooledSource(source or shelf, registry, PoolScope(frozenset(pools), "eve", milestone))

    return of


def shown(source: PooledSource) -> dict[str, tuple[str, ...]]:
    return {scenario.name: scenario.tasks for scenario in source.scenarios()}


def test_only_tasks_of_the_pools_are_shown_and_no_index_moves(view: View) -> None:
    assert shown(view(Pool.TRAIN)) == {"lamps": ("", "Do 1.", "", "Do 3."), "books": ("Do 30.",)}
    assert shown(view(Pool.DEV)) == {"lamps": ("Do 0.", "", "Do 2.", "", "Do 4.", "Do 5.")}
    assert shown(view(Pool.REGRESSION, Pool.TRAIN)).keys() == {"lamps", "chairs", "books"}
    assert view(Pool.DEV).indices("Lamps") == (0, 2, 4, 5)
    assert [(ref.scenario, ref.task_idx) for ref in view(Pool.TRAIN).tasks()] == [
        ("lamps", 1),
        ("lamps", 3),
        ("books", 0),
    ]


def test_nothing_of_another_pool_is_told_by_any_method(view: View) -> None:
    source = view(Pool.TRAIN)
    by_task = (source.task, source.verifiers, source.solution, source.policy, lambda *at: source.verifier(*at, "code"))
    for name, index in (
        ("lamps", 0),
        ("LAMPS", 5),
        ("chairs", 0),
        ("Doors", 1),
        ("new", 0),
        ("lamps", 6),
        ("sofas", 0),
    ):
        for method in by_task:
            with pytest.raises(UnknownTaskError):
                method(name, index)
    for name in ("chairs", "doors", "new", "sofas"):
        for method in (source.task, source.scenario, source.payload, source.payload_digest, source.report):
            with pytest.raises(UnknownTaskError):
                method(name)
        assert source.indices(name) == ()


def test_a_refusal_does_not_tell_whether_the_task_is_in_another_pool_or_nowhere(view: View) -> None:
    source = view(Pool.TRAIN)

    def told(name: str, index: int | None) -> str:
        with pytest.raises(UnknownTaskError) as caught:
            source.task(name, index)
        return str(caught.value).replace(name, "NAME").replace(str(index), "INDEX")

    def scenario(name: str) -> str:
        return told(name, 0).partition("; ")[0]  # then the nearest names of those that are seen

    assert len({scenario(name) for name in ("chairs", "doors", "new", "nowhere")}) == 1
    assert len({told("lamps", index) for index in (0, 5, 6, 99)}) == 1
    assert "it may see 1, 3" in told("lamps", 0)
    for pool in ("dev", "regression", "blind"):
        assert pool not in told("lamps", 0) + told("doors", 0)


def test_a_task_that_moves_is_out_of_reach_at_once(view: View, registry: TaskRegistry) -> None:
    source = view(Pool.DEV)
    assert source.task("lamps", 2).text == "Do 2."
    TaskRegistry.open(registry.root).move(["lamps/2"], Pool.TRAIN, by="bob", why="x")
    with pytest.raises(UnknownTaskError):
        source.task("lamps", 2)
    assert shown(source)["lamps"][2] == ""
    TaskRegistry.open(registry.root).move(["lamps/0", "lamps/4", "lamps/5"], Pool.TRAIN, by="bob", why="x")
    assert shown(source) == {}


def test_content_that_is_not_what_was_registered_is_refused(view: View, shelf: Shelf, registry: TaskRegistry) -> None:
    source = view(Pool.DEV)
    shelf.contents["lamps"][2] = 99
    with pytest.raises(PoolError, match=r"lamps/2 is not what was registered"):
        source.task("lamps", 2)
    assert source.task("lamps", 4).text == "Do 4."
    registry.import_tasks(shelf, Pool.TRAIN, by="ann", scenarios=["lamps"])
    assert source.task("lamps", 2).text == "Do 99."


def test_blind_is_opened_once_and_before_anything_of_it_is_shown(view: View, registry: TaskRegistry) -> None:
    with pytest.raises(PoolError, match="eve may see blind tasks, and no milestone"):
        view(Pool.BLIND)
    source = view(Pool.BLIND, Pool.TRAIN, milestone="release 1")
    assert source.task("books", 0).text == "Do 30."
    assert source.task("lamps").task_idx is None
    assert registry.openings == (), "nothing blind was shown"
    assert source.payload_digest("doors")
    assert len(registry.openings) == 1
    assert source.task("doors", 1).text == "Do 21."
    assert shown(source)["doors"] == ("Do 20.", "Do 21.")
    (opening,) = registry.openings
    assert (opening.by, opening.event.milestone) == ("eve", "release 1")  # type: ignore[union-attr]
    assert shown(view(Pool.BLIND, milestone="release 2")) == {"doors": ("Do 20.", "Do 21.")}
    assert len(registry.openings) == 2


def test_a_blind_task_among_others_of_its_scenario_opens_the_pool(view: View, registry: TaskRegistry) -> None:
    registry.move(["doors/0"], Pool.DEV, by="ann", why="spent", milestone="release 0")
    source = view(Pool.BLIND, Pool.DEV, milestone="release 1")
    assert source.task("doors", 0).text == "Do 20."
    assert source.task("doors").task_idx is None
    assert len(registry.openings) == 1, "the move is all that has shown a blind task"
    assert source.task("doors", 1).text == "Do 21."
    assert len(registry.openings) == 2


def test_blind_is_not_shown_where_the_opening_cannot_be_logged(view: View, registry: TaskRegistry) -> None:
    source = view(Pool.BLIND, milestone="release 1")
    digest = registry.versions(Pool.BLIND)[-1].manifest.removeprefix("sha256:")
    (registry.root / "manifests" / "sha256" / digest[:2] / digest[2:4] / digest).unlink()
    for attempt in (source.scenarios, lambda: source.task("doors", 0), lambda: source.payload("doors")):
        with pytest.raises(QuintainError, match="registry cannot be used") as caught:
            attempt()
        assert not isinstance(caught.value, RegistryError)
        assert str(registry.root) not in str(caught.value)


def test_a_damaged_registry_shows_nothing(view: View, registry: TaskRegistry) -> None:
    source = view(Pool.TRAIN)
    journal = registry.root / "journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) // 2])
    for attempt in (source.scenarios, lambda: source.task("books", 0)):
        with pytest.raises(QuintainError, match="registry cannot be used"):
            attempt()
    journal.unlink()
    with pytest.raises(QuintainError, match="registry cannot be used"):
        source.task("books", 0)
    journal.write_bytes(whole)
    assert source.task("books", 0).text == "Do 30."


def test_the_quarantine_list_holds_too(view: View, shelf: Shelf) -> None:
    entry = {"scenario": "lamps", "task_idx": 3, "dataset_digest": shelf.dataset_digest, "reasons": ["by_hand"]}
    document = {"schema_version": 1, "entries": [entry | {"detail": "", "found_at": "2026-03-01T12:00:00Z"}]}
    source = view(Pool.TRAIN, source=QuarantinedSource(shelf, QuarantineList.model_validate(document)))
    assert source.task("lamps", 1).text == "Do 1."
    with pytest.raises(QuarantinedTaskError):
        source.task("lamps", 3)
    with pytest.raises(UnknownTaskError):
        source.task("lamps", 0)


def test_it_is_still_the_same_dataset(view: View, shelf: Shelf) -> None:
    source = view(Pool.TRAIN)
    assert (source.dataset_digest, source.manifest) == (shelf.dataset_digest, shelf.manifest)
    assert source.provenance == shelf.provenance
