"""`done(keep_session=true)`: what is kept of an episode, and that nothing is kept otherwise."""

import asyncio
import json
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.pack import HAS_DONE
from e2e.serving import CACHE, Server
from e2e.wire import Wire
from journals import misleading_journal
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.fork import ForkProvider
from quintain.tasks.base import Verifier
from quintain.verifiers import CodeVerifier, Verdict
from quintain.verifiers.sandbox import verifier_class

pytestmark = pytest.mark.xdist_group("e2e-hostile")


def notes(database: Path) -> list[str]:
    """The notes in a database that needs no other file; it must be sound."""
    connection = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]
    finally:
        connection.close()


def opened(database: Path) -> list[str]:
    """The notes in a database with its side files, opened as anyone would."""
    connection = sqlite3.connect(database)
    try:
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]
    finally:
        connection.close()


def kept_state(folder: Path, database: str) -> list[StateFile]:
    """A kept database with the side files that were kept with it."""
    names = (database, f"{database}-wal", f"{database}-journal")
    return [StateFile(name, folder / name) for name in names if (folder / name).exists()]


def verdict_on(folder: Path, scenario: str) -> Verdict:
    """The verdict of the task's verifier on what was kept, in a sandbox as the server's."""
    verifier = Verifier(scenario=scenario, task_idx=0, mode="code", code=HAS_DONE, raw_response="{}")
    initial, final = kept_state(folder, f"{scenario}_initial.db"), kept_state(folder, f"{scenario}.db")

    async def verify() -> Verdict:
        provider = ForkProvider(CACHE / "runtimes")
        try:
            return await CodeVerifier(provider, verifier_class(20)).verify(verifier, initial, final, None)
        finally:
            await provider.close()

    return asyncio.run(verify())


def verified_and_kept(session: Wire) -> tuple[dict[str, Any], Path]:
    """What `verify` said, and the folder that `done` kept."""
    result = session.seen("verify")["verify_result"]
    observation = session.call("done", keep_session=True)["observation"]
    assert "warning" not in observation
    return result, Path(observation["session_dir"])


def test_what_is_kept(hostile: Server) -> None:
    with Wire(hostile.url) as session:
        session.reset("hostile_house_1", 0, seed=5, episode_id="label", model_digest="sha256:model")
        session.value("add_note", words="done")
        session.value("chatter", lines=2)
        session.seen("fail", really=True)
        session.seen("no_such_tool")
        assert session.call("verify")["reward"] == 1.0
        observation = session.call("done", keep_session=True)["observation"]
    folder = Path(observation["session_dir"])
    assert folder.parent == hostile.kept
    assert folder.stat().st_mode & 0o777 == 0o700
    assert observation["trajectory_path"] == str(folder / "trajectory.json")
    assert {path.name for path in folder.iterdir()} == {
        "trajectory.json", "hostile_house_1.db", "hostile_house_1_initial.db", "server.py", "server.log",
    }  # fmt: skip
    assert notes(folder / "hostile_house_1_initial.db") == ["first"]
    assert notes(folder / "hostile_house_1.db") == ["first", "done"]
    assert "def add_note" in (folder / "server.py").read_text()

    log = (folder / "server.log").read_text()
    assert "line 0" in log
    assert "to the error stream" in log
    assert "ValueError" in log
    trajectory = json.loads((folder / "trajectory.json").read_text())
    assert trajectory["scenario"] == "hostile_house_1"
    assert [step.get("tool_name", step["action"]) for step in trajectory["trajectory"]] == [
        "add_note", "chatter", "fail", "no_such_tool", "verify",
    ]  # fmt: skip
    record = trajectory["record"]
    assert record["reward"] == 1.0
    assert record["reward_valid"] is True
    assert record["environment_failures"] == 1
    assert record["client_episode_id"] == "label"
    assert (record["model_digest"], record["seed"], record["attempt"]) == ("sha256:model", 5, 0)
    assert record["terminal_reason"] == "done"


def test_a_write_ahead_log_is_kept_whole(hostile: Server) -> None:
    """The last notes are in the log alone, with a connection still open, when the episode is stopped."""
    with Wire(hostile.url) as session:
        session.reset("wal_ledger_1", 0)
        assert session.value("hold_a_connection") == "wal"
        for number in range(5):
            session.value("add_note", words=f"note {number}")
        session.value("add_note", words="done")
        assert "wal_ledger_1.db-wal" in session.value("list_files")
        verdict = session.call("verify")
        assert (verdict["reward"], verdict["observation"]["reward_type"]) == (1.0, "complete")
        folder = Path(session.call("done", keep_session=True)["observation"]["session_dir"])
    expected = ["first", *(f"note {number}" for number in range(5)), "done"]
    assert opened(folder / "wal_ledger_1.db") == expected
    assert opened(folder / "wal_ledger_1_initial.db") == ["first"]


def test_a_write_ahead_log_survives_a_killed_process(hostile: Server) -> None:
    with Wire(hostile.url) as session:
        session.reset("wal_ledger_1", 0)
        session.value("hold_a_connection")
        session.value("add_note", words="done")
        (pid,) = hostile.episodes()
        os.kill(pid, signal.SIGKILL)
        following = session.seen("list_notes")
        assert following["reward_type"] in ("tool_call_ok", "server_error")
        assert session.value("list_notes") == ["first", "done"]
        assert session.call("verify")["reward"] == 1.0


@pytest.mark.parametrize("scenario", ["wal_ledger_1", "journal_ledger_1"])
@pytest.mark.parametrize("done", [True, False])
def test_verifying_what_was_kept_gives_the_same_verdict(hostile: Server, scenario: str, done: bool) -> None:
    """With a connection open, and what was committed last in a log or in a database that has one."""
    with Wire(hostile.url) as session:
        session.reset(scenario, 0)
        session.value("hold_a_connection")
        session.value("add_note", words="done" if done else "not yet")
        result, folder = verified_and_kept(session)
    verdict = verdict_on(folder, scenario)
    assert verdict.verify_result == result
    assert verdict.reward_type == ("complete" if done else "incomplete")


@pytest.mark.parametrize("scenario", ["wal_ledger_1", "journal_ledger_1"])
def test_what_was_never_committed_is_kept_as_what_it_is(hostile: Server, scenario: str) -> None:
    """A transaction is open, half of it in the files: neither verdict counts it, and opening the files undoes it."""
    with Wire(hostile.url) as session:
        session.reset(scenario, 0)
        files = session.value("hold_a_transaction", words="done")
        assert f"{scenario}.db-{'wal' if scenario == 'wal_ledger_1' else 'journal'}" in files
        result, folder = verified_and_kept(session)
    assert result["result"] == "others"
    assert verdict_on(folder, scenario).verify_result == result
    assert opened(folder / f"{scenario}.db") == ["first"]


@pytest.mark.parametrize("scenario", ["wal_ledger_1", "journal_ledger_1"])
def test_a_state_is_kept_whole_while_a_thread_goes_on_writing(hostile: Server, scenario: str) -> None:
    for pause_s in (0.05, 0.11, 0.23):
        with Wire(hostile.url) as session:
            session.reset(scenario, 0)
            session.value("add_note", words="done")
            session.value("keep_writing", really=True)
            time.sleep(pause_s)
            result, folder = verified_and_kept(session)
        verdict = verdict_on(folder, scenario)
        assert verdict.verify_result == result
        assert verdict.reward_type == "complete"
        found = opened(folder / f"{scenario}.db")
        assert found[:2] == ["first", "done"]
        left, right = ({one[2:] for one in found if one.startswith(side)} for side in ("a ", "b "))
        assert left == right
        assert notes(folder / f"{scenario}_initial.db") == ["first"] or scenario == "wal_ledger_1"


def test_a_killed_process_leaves_what_it_had_committed_to_keep(hostile: Server) -> None:
    before = set(hostile.episodes())
    with Wire(hostile.url) as session:
        session.reset("wal_ledger_1", 0)
        session.value("hold_a_connection")
        session.value("add_note", words="done")
        (pid,) = set(hostile.episodes()) - before
        os.kill(pid, signal.SIGKILL)
        result, folder = verified_and_kept(session)
    assert result["result"] == "complete"
    assert verdict_on(folder, "wal_ledger_1").verify_result == result


def test_opening_what_was_kept_deletes_no_file(hostile: Server, tmp_path: Path) -> None:
    """A journal may name a file that SQLite deletes when it opens the database, as whoever opens it."""
    precious = tmp_path / "precious.txt"
    precious.write_text("a file of whoever opens the database")
    with Wire(hostile.url) as session:
        session.reset("journal_ledger_1", 0)
        journal = misleading_journal(precious, pages=2)
        files = session.value("leave_file", name="journal_ledger_1.db-journal", content=journal.hex())
        assert "journal_ledger_1.db-journal" in files
        result, folder = verified_and_kept(session)
    assert result["result"] == "others"
    assert not (folder / "journal_ledger_1.db-journal").exists()
    assert opened(folder / "journal_ledger_1.db") == ["first"]
    assert precious.exists()
    assert verdict_on(folder, "journal_ledger_1").verify_result == result


def test_nothing_is_kept_unasked(hostile: Server) -> None:
    before = set(hostile.kept.iterdir()) if hostile.kept.exists() else set()
    with Wire(hostile.url) as session:
        for arguments in ({}, {"keep_session": False}, {"keep_session": "yes"}):
            session.reset("hostile_house_1", 0)
            session.value("write_file", path="left.txt")
            observation = session.call("done", **arguments)["observation"]
            assert "session_dir" not in observation
            assert ("keep_session" in observation.get("warning", "")) is ("yes" in arguments.values())
    hostile.settle()
    assert hostile.episodes() == []
    assert hostile.leftovers() == []
    assert (set(hostile.kept.iterdir()) if hostile.kept.exists() else set()) == before
