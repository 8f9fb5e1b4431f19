"""Replays over the toy world: what is the same is called so, and what differs is found where it does."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.identity import sha256
from quintain.contracts.record import EpisodeRecord, Omitted
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.recorded import Recorded, each
from quintain.episodes.replay import Replay, Replayer, StateStatus, Status
from quintain.records.form import read_record
from quintain.records.recorder import seal
from quintain.records.redaction import Redactor

Call = tuple[str, Any]
KEY = "sk-test-1234567890abcdef1234"
WAYS: list[Call] = [
    ("add_note", {"text": "buy milk"}),
    ("add_note", {"text": "ü\u2028\t"}),
    ("list_notes", {}),
    ("get_note", {"note_id": 1}),
    ("get_note", {"note_id": 99}),
    ("tick", {}),
    ("boom", {}),
    ("die", {"after_write": "written"}),
    ("add_note", {}),
    ("add_note", {"text": 7}),
    ("no_such_tool", {"a": [None, 1.5, {"b": "c"}]}),
    ("malformed", {}),
    ("large", {"size": 10}),
    ("add_note", {"text": float("nan")}),
]


async def played(
    rooms: Rooms, calls: list[Call], *, redactor: Redactor | None = None, hibernate: bool = False, **request: Any
) -> EpisodeRecord:
    """The record of an episode of these calls and a verification, as its worker would send it."""
    asked = {"scenario": "Toy Notes 1", "task_idx": 0, "model_digest": "m", **request}
    episode = Episode(rooms, EpisodeRequest.model_validate(asked))
    await episode.start()
    episode.list_tools()
    for name, arguments in calls:
        await episode.call(name, arguments, 0.3 if name == "slow" else 30.0)
        if hibernate:
            assert (await episode.hibernate()).done
    if episode.verifiable("code"):
        await episode.verify("code", "an answer")
    return read_record(seal(await episode.finish(), redactor or Redactor(), "test").data)


async def replayed(rooms: Rooms, record: EpisodeRecord, *, anyway: bool = False, **more: Any) -> Replay:
    return await Replayer(rooms, anyway=anyway).replay(Recorded("it", record, **more))


def with_step(record: EpisodeRecord, index: int, **fields: Any) -> EpisodeRecord:
    """The same record, but for one step."""
    steps = tuple(step.model_copy(update=fields) if step.index == index else step for step in record.steps)
    return record.model_copy(update={"steps": steps})


@pytest.fixture
def states(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "kept")


async def test_whatever_was_done_is_the_same_again(open_world: Callable[..., Any], states: LocalArtifactStore) -> None:
    dice = random.Random(7)
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        for number in range(8):
            calls = WAYS if number == 0 else dice.choices(WAYS, k=dice.randrange(12))
            record = await played(rooms, calls, seed=number)
            replay = await replayed(world.rooms, record, states=(states,))
            assert replay.status is Status.IDENTICAL, replay
            assert (replay.steps, replay.state) == (len(record.steps), StateStatus.SAME)
        assert world.ledger.submitted[-1].key.model_digest == "m", "no replay brought a score to the ledger"


@pytest.mark.parametrize(
    ("index", "change", "field"),
    [
        (2, {"result": '{"id": 3}'}, "result"),
        (3, {"arguments": {"note_id": 2}}, "result"),
        (4, {"error": "403: Note not found"}, "error"),
        (4, {"reward_type": "server_error"}, "reward_type"),
        (4, {"warning": "nothing was lost"}, "warning"),
        (5, {"tool_name": "list_notes"}, "result"),
        (5, {"reward": 1.0}, "reward"),
        (6, {"reward_type": "complete", "reward": 1.0}, "reward_type"),
        (6, {"verify_result": {"result": "complete", "execution_status": "success"}}, "verify_result"),
    ],
)
async def test_what_was_tampered_with_is_found_at_its_step(
    open_world: Callable[..., Any], index: int, change: dict[str, Any], field: str
) -> None:
    calls: list[Call] = [
        ("add_note", {"text": "buy tea"}),
        ("get_note", {"note_id": 1}),
        ("get_note", {"note_id": 99}),
        ("tick", {}),
    ]
    async with open_world() as world:
        record = await played(world.rooms, calls)
        assert (await replayed(world.rooms, record)).status is Status.IDENTICAL
        replay = await replayed(world.rooms, with_step(record, index, **change))
        assert replay.status is Status.DIFFERENT
        assert replay.difference is not None
        assert (replay.difference.step, replay.difference.field) == (index, field)
        assert replay.difference.recorded != replay.difference.replayed


async def test_another_seed_is_told_before_playing_and_found_if_played_anyway(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await played(world.rooms, [("list_notes", {}), ("tick", {})], seed=3)
        other = record.model_copy(update={"seed": 4})
        claims = world.provider.live
        replay = await replayed(world.rooms, other)
        assert (replay.status, replay.steps, world.provider.live) == (Status.MISMATCHED, 0, claims)
        assert [one.name for one in replay.mismatches] == ["episode_id"]
        replay = await replayed(world.rooms, other, anyway=True)
        assert replay.status is Status.DIFFERENT
        assert replay.difference is not None
        assert (replay.difference.step, replay.difference.field) == (3, "result")
        assert ('"seed": 3' in replay.difference.recorded, '"seed": 4' in replay.difference.replayed) == (True, True)


async def test_each_part_of_the_identity_is_named(open_world: Callable[..., Any]) -> None:
    fake = sha256(b"another")
    names = ("environment_class_id", "task_payload_digest", "dataset_digest", "verifier_digest", "task_policy_digest")
    async with open_world() as world:
        record = await played(world.rooms, [("list_notes", {})])
        for name in names:
            replay = await replayed(world.rooms, record.model_copy(update={name: fake}))
            assert name in [one.name for one in replay.mismatches]
            assert replay.status is Status.MISMATCHED
        older = record.model_copy(update={"environment_class_id": fake, "versions": {"sqlite": "3.0"}})
        (told,) = [one for one in (await replayed(world.rooms, older)).mismatches if one.name.startswith("version")]
        assert (told.name, told.recorded) == ("version of sqlite", "3.0")
        gone = await replayed(world.rooms, record.model_copy(update={"scenario": "nowhere"}))
        assert (gone.status, "nowhere" in gone.notes[0]) == (Status.FAILED, True)


async def test_a_task_of_ones_own_is_played_again(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await played(world.rooms, [("list_notes", {})], task="Do as you like.")
        assert (await replayed(world.rooms, record)).status is Status.IDENTICAL


async def test_redacted_records_replay(open_world: Callable[..., Any], states: LocalArtifactStore) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        calls: list[Call] = [("add_note", {"text": f"the key is {KEY}"}), ("get_note", {"note_id": 2}), ("tick", {})]
        record = await played(rooms, calls)
        assert KEY not in record.model_dump_json()
        replay = await replayed(world.rooms, record, states=(states,))
        assert (replay.status, replay.state) == (Status.INCONCLUSIVE, StateStatus.DIFFERENT), "the key is in one state"
        assert "redacted" in replay.notes[0]
        assert (await replayed(world.rooms, record.model_copy(update={"states": None}))).status is Status.IDENTICAL
        later = with_step(record, 4, result="{}")
        assert (await replayed(world.rooms, later)).status is Status.INCONCLUSIVE, "the arguments may have caused it"


async def test_what_only_its_own_redactor_knew_is_compared_around(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await played(world.rooms, [("list_notes", {})], redactor=Redactor(["water plants"]))
        assert record.steps[1].result == '[[1, "[redacted:credential]"]]'
        assert (await replayed(world.rooms, record)).status is Status.IDENTICAL
        other = with_step(record, 2, result='[[2, "[redacted:credential]"]]')
        assert (await replayed(world.rooms, other)).status is Status.DIFFERENT


async def test_a_call_that_timed_out_is_never_called_different(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await played(world.rooms, [("add_note", {"text": "a"}), ("slow", {"seconds": 5}), ("list_notes", {})])
        assert record.steps[2].reward_type == "timeout"
        replay = await replayed(world.rooms, record)
        assert replay.status is Status.IDENTICAL
        assert any("step 3: it timed out in the record" in note for note in replay.notes)
        in_time = with_step(record, 3, arguments={"seconds": 0})
        replay = await replayed(world.rooms, in_time)
        assert replay.status is Status.INCONCLUSIVE, "no new process was needed, so the next step has no warning"
        before = await replayed(world.rooms, with_step(record, 2, result="{}"))
        assert (before.status, before.difference and before.difference.step) == (Status.DIFFERENT, 2)


async def test_what_is_not_in_the_record_is_compared_by_its_digest(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await played(world.rooms, [("large", {"size": 5000}), ("tick", {})])
        right = {"result": Omitted(digest=sha256(b"x" * 5000), size_bytes=5000)}
        replay = await replayed(world.rooms, with_step(record, 2, result=None, omitted=right))
        assert replay.status is Status.IDENTICAL
        wrong = {"result": Omitted(digest=sha256(b"y" * 5000), size_bytes=5000)}
        replay = await replayed(world.rooms, with_step(record, 2, result=None, omitted=wrong))
        assert (replay.status, replay.difference and replay.difference.step) == (Status.DIFFERENT, 2)
        unknown = {"arguments": Omitted(digest=sha256(b"{}"), size_bytes=2)}
        replay = await replayed(world.rooms, with_step(record, 3, arguments=None, omitted=unknown))
        assert (replay.status, replay.steps) == (Status.INCONCLUSIVE, 2)
        assert "too large to be in the record" in replay.notes[-1]


async def test_an_episode_that_hibernated_is_the_same_without(
    open_world: Callable[..., Any], states: LocalArtifactStore
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        record = await played(rooms, [("add_note", {"text": "a"}), ("list_notes", {})], hibernate=True)
        assert record.hibernations == 2
        replay = await replayed(world.rooms, record, states=(states,))
        assert (replay.status, replay.state) == (Status.IDENTICAL, StateStatus.SAME)


async def test_another_final_state_is_a_difference(open_world: Callable[..., Any], states: LocalArtifactStore) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        one, other = (
            await played(rooms, [("add_note", {"text": "a"})]),
            await played(rooms, [("add_note", {"text": "b"})]),
        )
        mixed = one.model_copy(update={"states": other.states})
        replay = await replayed(world.rooms, mixed, states=(states,))
        assert (replay.status, replay.state) == (Status.DIFFERENT, StateStatus.DIFFERENT)
        assert replay.difference is not None
        assert (replay.difference.step, replay.difference.field) == (None, "state")
        nowhere = await replayed(world.rooms, mixed)
        assert (nowhere.status, nowhere.state) == (Status.IDENTICAL, StateStatus.NOT_COMPARED)
        assert "final state was not compared" in nowhere.notes[-1]
        without = await replayed(world.rooms, one.model_copy(update={"states": None}))
        assert (without.status, without.state) == (Status.IDENTICAL, StateStatus.NOT_KEPT)
        assert "it was not kept" in without.notes[-1]


async def test_a_kept_session_is_compared_with_its_files(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        folder = tmp_path / "session"
        folder.mkdir()
        episode = Episode(world.rooms, EpisodeRequest(scenario="toy_notes_1", task_idx=0, model_digest="m"))
        await episode.start()
        await episode.call("add_note", {"text": "a"})
        record = await episode.finish(keep=folder)
        replay = await replayed(world.rooms, record, folder=folder)
        assert (replay.status, replay.state) == (Status.IDENTICAL, StateStatus.SAME)
        (folder / "toy_notes_1.db").unlink()
        (folder / "toy_notes_1_initial.db").rename(folder / "toy_notes_1.db")
        replay = await replayed(world.rooms, record, folder=folder)
        assert (replay.status, replay.state) == (Status.DIFFERENT, StateStatus.DIFFERENT)


async def test_an_attempt_that_did_not_begin_has_nothing_to_play(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await played(world.rooms, [])
        for change in ({"episode_id": None}, {"terminal_reason": "record_lost"}):
            replay = await replayed(world.rooms, record.model_copy(update=change))
            assert (replay.status, replay.steps) == (Status.INCONCLUSIVE, 0)


async def test_many_are_played_some_at_a_time(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        # no `tick`: it draws from the process's random numbers, and here all sandboxes share one process
        record = await played(world.rooms, [("add_note", {"text": "milk"}), ("list_notes", {})])
        many = (Recorded(str(number), record) for number in range(9))
        replays = [one async for one in each(many, Replayer(world.rooms).replay, 3)]
        assert sorted(one.record for one in replays) == [str(number) for number in range(9)]
        assert {one.status for one in replays} == {Status.IDENTICAL}
        assert world.provider.live == 0


async def test_what_raises_while_many_are_played_is_raised(open_world: Callable[..., Any]) -> None:
    async def fail(one: Recorded) -> str:
        raise ValueError(one.name)

    async with open_world() as world:
        record = await played(world.rooms, [])
        with pytest.raises(ValueError, match="only"):
            async for _ in each(iter([Recorded("only", record)]), fail, 2):
                pass
