"""Code verification, over the toy verifier kind."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.errors import Owner, SandboxError
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.inprocess import InProcessProvider
from quintain.verifiers import Certainty, CodeVerifier, Verdict

pytestmark = pytest.mark.asyncio

TASKS = ["count", "crash", "shape", "answer", "slow", "exit", "nan", "wordless"]


def database(path: Path, *notes: str) -> list[StateFile]:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE notes (text TEXT)")
        db.executemany("INSERT INTO notes VALUES (?)", [(note,) for note in notes])
    db.close()
    return [StateFile("toy_notes_1.db", path)]


async def verdict(world: Any, tmp_path: Path, task: str, *, answer: str | None = None, mode: Any = "code") -> Verdict:
    initial = database(tmp_path / "a.db", "one")
    final = database(tmp_path / "b.db", "one", "buy milk")
    verifier = world.source.verifier("toy_notes_1", TASKS.index(task), mode)
    result = await world.verifier.verify(verifier, initial, final, answer)
    assert result.digest == verifier.digest
    assert world.provider.live == 0
    assert isinstance(result, Verdict)
    return result


async def test_complete_and_its_word(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        found = await verdict(world, tmp_path, "count")
        assert (found.reward_type, found.result, found.status) == ("complete", "complete", Certainty.CERTAIN)
        assert found.verify_result == {
            "result": "complete",
            "execution_status": "success",
            "raw_result": {"result": "complete"},
        }
        assert found.log == "looked at both databases"


@pytest.mark.parametrize(
    ("answer", "reward_type", "word"), [("42", "complete", "complete"), ("41", "incomplete", "no")]
)
async def test_any_other_word_is_incomplete_and_kept(
    open_world: Callable[..., Any], tmp_path: Path, answer: str, reward_type: str, word: str
) -> None:
    async with open_world() as world:
        found = await verdict(world, tmp_path, "answer", answer=answer)
        assert (found.reward_type, found.verify_result["result"], found.certain) == (reward_type, word, True)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("crash", "broken verifier"),
        ("shape", "a dict is needed"),
        ("slow", "time limit"),
        ("exit", "without a verdict"),
        ("wordless", "no 'result'"),
    ],
)
async def test_a_verifier_that_fails_is_uncertain_and_owns_it(
    open_world: Callable[..., Any], tmp_path: Path, task: str, reason: str
) -> None:
    async with open_world() as world:
        found = await verdict(world, tmp_path, task)
        assert (found.reward_type, found.status, found.failure_owner) == (
            "judge_error",
            Certainty.UNCERTAIN,
            Owner.VERIFIER,
        )
        assert reason in str(found.reason)
        assert found.verify_result == {"execution_status": "error", "error_message": found.reason}


async def test_a_value_that_json_cannot_carry_is_no_verdict(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        found = await verdict(world, tmp_path, "nan")
        assert (found.reward_type, found.certain, found.failure_owner) == ("judge_error", False, Owner.VERIFIER)
        assert "no JSON" in str(found.reason)
        assert "nan" in str(found.reason)


async def test_sql_mode_is_refused_with_a_reason_and_shows_no_rows(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        found = await verdict(world, tmp_path, "count", mode="sql")
        assert (found.reward_type, found.certain) == ("judge_error", False)
        assert "judge" in str(found.reason)
        assert "milk" not in str(found.verify_result)


async def test_a_verifier_sandbox_that_cannot_start_is_the_infrastructures(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    class Full(InProcessProvider):
        async def claim(self, *_args: Any, **_kwargs: Any) -> Any:
            raise SandboxError("no room")

    async with open_world() as world:
        full = Full(tmp_path / "full")
        world.verifier = CodeVerifier(full, world.verifier_class)
        found = await verdict(world, tmp_path, "count")
        assert (found.reward_type, found.failure_owner) == ("judge_error", Owner.INFRASTRUCTURE)
        await full.close()


async def test_side_files_travel_with_their_database(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        initial = database(tmp_path / "a.db")
        live = sqlite3.connect(tmp_path / "w.db")
        live.execute("PRAGMA journal_mode=WAL")
        live.execute("CREATE TABLE notes (text TEXT)")
        live.execute("INSERT INTO notes VALUES ('buy milk')")
        live.commit()
        final = [
            StateFile("toy_notes_1.db", tmp_path / "w.db"),
            StateFile("toy_notes_1.db-wal", tmp_path / "w.db-wal"),
        ]
        verifier = world.source.verifier("toy_notes_1", 0, "code")
        found = await world.verifier.verify(verifier, initial, final, None)
        live.close()
        assert found.reward_type == "complete"
