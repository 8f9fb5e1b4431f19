"""The states that an episode keeps, over the toy world."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.record import EpisodeRecord
from quintain.episodes import Episode, EpisodeRequest
from quintain.records.form import read_record, record_bytes

REQUEST = EpisodeRequest(scenario="Toy Notes 1", task_idx=0, model_digest="m")


async def played(rooms: Any, *notes: str, after: str | None = None) -> EpisodeRecord:
    """Add notes, verify, perhaps add one more."""
    episode = Episode(rooms, REQUEST)
    await episode.start()
    for note in notes:
        await episode.call("add_note", {"text": note})
    await episode.verify("code")
    if after is not None:
        await episode.call("add_note", {"text": after})
    return await episode.finish()


async def test_states_are_kept_by_digest_and_the_initial_one_is_shared(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        store = LocalArtifactStore(tmp_path / "states")
        rooms = replace(world.rooms, states=store)
        one, other = await played(rooms, "buy milk"), await played(rooms, "buy tea")
        for record in (one, other):
            states = record.states
            assert states is not None
            assert (states.problem, states.scored) == (None, None), "it was scored on what it ended with"
            for blob in (*(states.initial or ()), *(states.final or ())):
                assert len(store.get(blob.digest)) == blob.size_bytes
            assert read_record(record_bytes(record)) == record
        assert one.states.initial == other.states.initial
        assert one.states.final != other.states.final
        assert b"buy milk" in store.get(one.states.final[0].digest)


async def test_what_was_scored_is_kept_beside_what_it_ended_with(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        store = LocalArtifactStore(tmp_path / "states")
        record = await played(replace(world.rooms, states=store), "buy milk", after="and more")
        assert record.states is not None
        scored, final = record.states.scored, record.states.final
        assert scored is not None
        assert final is not None
        assert b"and more" not in store.get(scored[0].digest)
        assert b"and more" in store.get(final[0].digest)


async def test_an_episode_that_is_given_up_keeps_its_states_too(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        store = LocalArtifactStore(tmp_path / "states")
        episode = Episode(replace(world.rooms, states=store), REQUEST)
        await episode.start()
        await episode.call("add_note", {"text": "buy milk"})
        record = await episode.abort("closed")
        assert record.states is not None
        assert b"buy milk" in store.get((record.states.final or ())[0].digest)


async def test_by_default_nothing_is_kept(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        assert (await played(world.rooms, "buy milk")).states is None


async def test_a_state_that_cannot_be_kept_costs_no_episode_and_is_told(
    open_world: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "states").write_text("a file where the directory should be")
    async with open_world() as world:
        record = await played(replace(world.rooms, states=LocalArtifactStore(tmp_path / "states")), "buy milk")
        assert record.reward == 1.0
        assert record.states is not None
        assert record.states.final is None
        assert "cannot store" in str(record.states.problem)
    assert "a state was not kept" in caplog.text
