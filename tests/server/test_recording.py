"""Every episode of a server leaves one record, however it ends, and nobody waits for a disk."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import live as live_server
from live import Live
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import CUT_OFF, TerminalReason
from quintain.episodes.keeping import RecordKeeper
from quintain.errors import Owner, SpoolUnavailable
from quintain.records import MemoryRecorder, Redactor
from quintain.rollout.attribution import TABLE
from quintain.server.metrics import OTHER, SEGMENTS, Metrics
from quintain.server.recording import Recording, open_recording
from quintain.server.settings import Settings
from records.recording import a_record

TOY = {"scenario": "toy_notes_1", "task_idx": 0}
KEY = "reset-key-8f3b2c71d5"


class Sinks:
    """Sinks in memory that share what they keep, and can be full or out of order."""

    def __init__(self) -> None:
        self.sealed: list[Any] = []
        self.full = False
        self.error: Exception | None = None
        self.delay_s = 0.0
        self.asked = 0

    def of(self, credentials: Any = ()) -> "Sink":
        return Sink(self, MemoryRecorder(Redactor(credentials)))

    @property
    def records(self) -> list[EpisodeRecord]:
        return [one.record() for one in self.sealed]


class Sink:
    def __init__(self, sinks: Sinks, recorder: MemoryRecorder) -> None:
        self._sinks = sinks
        self._recorder = recorder

    @property
    def full(self) -> bool:
        return self._sinks.full

    async def add(self, record: EpisodeRecord) -> str:
        self._sinks.asked += 1
        await asyncio.sleep(self._sinks.delay_s)
        if self._sinks.error is not None:
            raise self._sinks.error
        digest = await self._recorder.add(record)
        self._sinks.sealed.append(self._recorder.sealed[-1])
        return digest


Serving = Callable[..., AbstractContextManager[tuple[Live, Sinks]]]


@pytest.fixture
def recorded(make_world: Callable[..., Any], tmp_path: Path) -> Serving:
    """A server over the toy world, with where its records go."""

    @contextmanager
    def serving(**options: Any) -> Iterator[tuple[Live, Sinks]]:
        sinks = Sinks()
        recording = Recording(keeper=RecordKeeper(sinks.of))
        with live_server.serving(make_world(), tmp_path / "kept", recording=recording, **options) as running:
            yield running, sinks

    return serving


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def told(records: list[EpisodeRecord]) -> list[tuple[str, str, Owner | None, bool]]:
    ends = ("completed", "failed", "timed_out", "cancelled")
    stage = [next(str(one.stage) for one in record.stages if one.stage in ends) for record in records]
    return [
        (record.terminal_reason, end, record.failure_owner, record.reward_valid)
        for record, end in zip(records, stage, strict=True)
    ]


def test_one_record_for_each_way_to_end(recorded: Serving) -> None:
    with recorded() as (live, sinks):
        with live.client() as client:
            client.reset(**TOY)
            client.step("add_note", text="buy milk")
            client.step("verify")
            client.step("done")
            client.step("done")  # there is none any more
            client.reset(**TOY)
            client.reset(**TOY, verify="final_only")
            client.step("verify")
            assert client.reset(scenario="broken_3", task_idx=0)["observation"]["reward_type"] == "reset_error"
            assert client.reset(scenario="nowhere")["observation"]["reward_type"] == "reset_error"
            assert client.reset(scenario="toy_notes_1", task_idx=99)["observation"]["reward_type"] == "reset_error"
            client.reset(**TOY)
            client.send({"type": "close"})
        live.wait_for(lambda: len(sinks.sealed) == 5, 20)
        assert told(sinks.records) == [
            ("done", "completed", None, True),
            ("reset", "cancelled", None, False),
            ("done", "completed", None, True),
            ("start_failed", "failed", Owner.ENVIRONMENT, False),
            ("closed", "cancelled", None, False),
        ]
        assert all(record.episode_id for record in sinks.records)
        failure = sinks.records[3].failure
        assert failure is not None
        assert (failure.cause, failure.owner, failure.stage) == ("TemplateError", Owner.ENVIRONMENT, "resolving")
        assert [record.failure for record in sinks.records if record.failure_owner is None] == [None] * 4
        with live.client() as client:
            client.reset(**TOY)
            client.connection.socket.close()  # no farewell
        live.wait_for(lambda: len(sinks.sealed) == 6, 20)
        with live.client() as client:
            client.reset(**TOY)
            client.step("verify")
            client.connection.socket.close()
        live.wait_for(lambda: len(sinks.sealed) == 7, 20)
        lost, scored = sinks.records[5:]
        assert told([lost, scored]) == [
            ("connection_lost", "cancelled", Owner.INFRASTRUCTURE, False),
            ("connection_lost", "cancelled", None, True),
        ]
        assert lost.failure is not None
        assert lost.failure.cause == "connection_lost"
        assert scored.failure is None
        assert scored.reward == 0.1
        ids = [record.episode_id for record in sinks.records]
        assert len({(one.model_digest, one.episode_id, one.attempt) for one in sinks.records}) == len(ids)
        for record in sinks.records:
            assert record.stages[-1].stage == "deleted"
        with live.client() as client:
            client.reset(**TOY)
            live.server.should_exit = True
            live.wait_for(lambda: len(sinks.sealed) == 8, 20)
    assert told(sinks.records[7:]) == [("server_shutdown", "cancelled", Owner.INFRASTRUCTURE, False)]


def test_over_mcp_and_the_agent_plane_and_when_idle(recorded: Serving) -> None:
    options = {"max_idle_time_s": 600, "allowed_idle_sessions": 0, "cleanup_interval_s": 0.1, "hibernate_after_s": 0}
    with recorded(**options) as (live, sinks), live.client() as client:
        plane = client.reset(**TOY)["observation"]["metadata"]["agent_plane"]["path"]
        body = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "add_note", "arguments": {"text": "buy milk"}},
        }  # fmt: skip
        headers = {"content-type": "application/json", "accept": "application/json"}
        live.headers.update(headers)
        assert live.post(plane, body).status_code == 200
        for session in live.registry:
            session.last_active -= 601
        live.wait_for(lambda: len(sinks.sealed) == 1, 20)
        assert told(sinks.records) == [("idle", "cancelled", Owner.INFRASTRUCTURE, False)]
        assert [step.tool_name for step in sinks.records[0].steps] == ["add_note"]
        assert "idle for more than 600 s" in client.step("list_notes")["observation"]["error"]
        session = live.rpc("openenv/session/create")["result"]["session_id"]
        with live.client(f"?session_id={session}") as other:
            other.reset(**TOY)
            live.rpc("openenv/session/close", {"session_id": session})
        live.wait_for(lambda: len(sinks.sealed) == 2, 20)
        assert sinks.records[1].terminal_reason == "closed"


def test_a_key_given_at_reset_is_in_no_record(recorded: Serving) -> None:
    with recorded() as (live, sinks), live.client() as client:
        client.reset(**TOY, llm_base_url="http://127.0.0.1:9/v1", llm_api_key=KEY, llm_model="judge")
        client.step("add_note", text=f"the key is {KEY}")
        client.step("list_notes")
        client.step("done")
        client.reset(**TOY)
        client.step("add_note", text="another episode")
        client.step("done")
        live.wait_for(lambda: len(sinks.sealed) == 2, 20)
        data = b"".join(one.data for one in sinks.sealed)
        assert KEY.encode() not in data
        assert b"[redacted:credential]" in sinks.sealed[0].data
        assert sinks.sealed[0].envelope.redactions["credential"] >= 2


def test_a_full_spool_stops_what_is_new_and_nothing_that_runs(recorded: Serving) -> None:
    with recorded() as (live, sinks), live.client() as running, live.client() as other:
        running.reset(**TOY)
        sinks.full = True
        refused = other.ask({"type": "reset", "data": TOY})
        assert refused["type"] == "error"
        assert refused["data"]["code"] == "CAPACITY_REACHED"
        assert "spool of records is full" in refused["data"]["message"]
        assert running.step("add_note", text="buy milk")["observation"]["reward_type"] == "tool_call_ok"
        assert running.step("verify")["reward"] == 1.0
        assert running.step("done")["done"] is True
        live.wait_for(lambda: len(sinks.sealed) == 1, 20)
        told = live.get("/stats").json()["quintain"]
        assert told["records"]["full"] is True
        assert "full" in told["records"]["obstacle"]
        assert told["counts"]["resets_refused"] == [{"reason": "records", "count": 1}]
        assert "quintain_spool_full 1.0" in live.get("/metrics").text
        sinks.full = False
        assert other.reset(**TOY)["observation"]["reward_type"] == "reset_ok"
        assert len(sinks.sealed) == 1  # what was refused has left none


def test_a_record_that_cannot_be_kept_is_offered_again(recorded: Serving) -> None:
    with recorded() as (live, sinks), live.client() as client, live.client() as other:
        client.reset(**TOY)
        other.reset(**TOY)
        sinks.error = SpoolUnavailable("its disk is full")
        client.step("done")
        live.wait_for(lambda: sinks.asked > 0, 20)
        refused = client.ask({"type": "reset", "data": TOY})
        assert refused["data"]["code"] == "CAPACITY_REACHED"
        assert "its disk is full" in refused["data"]["message"]
        assert other.step("list_notes")["observation"]["reward_type"] == "tool_call_ok"
        other.step("done")
        told = live.get("/stats").json()["quintain"]["records"]
        assert (told["kept"], told["waiting"], told["lost"]) == (0, 2, 0)
        assert told["refused"] >= 1
        sinks.error = None
        live.wait_for(lambda: len(sinks.sealed) == 2, 20)
        assert client.reset(**TOY)["observation"]["reward_type"] == "reset_ok"
        assert any("its disk is full" in line for line in live.log.messages)
        live.log.messages.clear()


async def test_what_cannot_be_kept_at_the_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    sinks = Sinks()
    sinks.error = SpoolUnavailable("its disk is gone")
    keeper = RecordKeeper(sinks.of)
    keeper.keep(a_record(attempt=41))
    await keeper.drain(0.3)
    assert (keeper.lost, keeper.kept, keeper.waiting) == (1, 0, 0)
    assert any("attempt 41" in line and "its disk is gone" in line for line in caplog.messages)


async def test_draining_hurries_what_waits_and_loses_nothing() -> None:
    sinks = Sinks()
    sinks.error = SpoolUnavailable("not now")
    keeper = RecordKeeper(sinks.of)
    for number in range(40):
        keeper.keep(a_record(attempt=number))
    await until(lambda: keeper.obstacle != "")
    asyncio.get_running_loop().call_later(0.2, setattr, sinks, "error", None)
    await keeper.drain(30)
    assert (keeper.kept, keeper.lost) == (40, 0)
    assert sorted(record.attempt for record in sinks.records) == list(range(40))


async def test_too_many_records_that_wait_stop_admission() -> None:
    sinks = Sinks()
    sinks.error = SpoolUnavailable("not now")
    for bounds in ({"max_waiting": 3}, {"max_waiting_bytes": 3 * 4096}):
        keeper = RecordKeeper(sinks.of, **bounds)
        for number in range(3):
            assert keeper.obstacle == ""  # nothing was refused yet: nobody has tried
            keeper.keep(a_record(attempt=number, steps=0))
        assert "3 records of episodes wait to be written" in keeper.obstacle
        await keeper.drain(0)


async def test_a_defect_while_sealing_is_told_and_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    sinks = Sinks()
    sinks.error = ValueError("a defect")
    keeper = RecordKeeper(sinks.of)
    keeper.keep(a_record())
    await until(lambda: keeper.waiting == 0)
    assert (keeper.lost, keeper.obstacle) == (1, "")
    assert any("is lost" in line for line in caplog.messages)


async def test_two_servers_share_a_spool_each_with_its_own_part(tmp_path: Path) -> None:
    settings = Settings(spool_dir=tmp_path / "spool")
    async with open_recording(settings, "one") as first, open_recording(settings, "two") as second:
        assert first.figures()["records"]["kept"] == second.figures()["records"]["kept"] == 0
        assert len([path for path in (tmp_path / "spool").iterdir() if (path / "lock").exists()]) == 2
    async with open_recording(Settings(spool_dir=tmp_path / "none", spool_size_mib=0), "run") as nothing:
        assert nothing.figures()["records"] is None
    assert not (tmp_path / "none").exists()


async def test_a_spool_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="QUINTAIN_SPOOL"):
        async with open_recording(Settings(spool_dir=tmp_path / "file" / "spool"), "run"):
            pass


def test_done_does_not_wait_for_the_disk(recorded: Serving) -> None:
    with recorded() as (live, sinks), live.client() as client:
        sinks.delay_s = 1.5
        client.reset(**TOY)
        client.step("done")
        assert live.get("/stats").json()["quintain"]["records"]["kept"] == 0
        client.reset(**TOY)
        live.wait_for(lambda: len(sinks.sealed) == 1, 20)


def samples(text: str) -> dict[str, list[dict[str, str]]]:
    return {
        family.name: [dict(sample.labels) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_metrics_count_by_fixed_labels(recorded: Serving) -> None:
    with recorded(token="t" * 20) as (live, sinks):
        assert live.get("/metrics").status_code == 401
        live.headers["authorization"] = f"Bearer {'t' * 20}"
        with live.client(additional_headers=live.headers) as client:
            for index in (0, 1):
                client.reset(scenario="toy_notes_1", task_idx=index)
                client.step("verify")
                client.step("done")
        live.wait_for(lambda: len(sinks.sealed) == 2, 20)
        answer = live.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        found = samples(answer.text)
        assert {"terminal_reason": "done", "failure_owner": "none", "stage": "completed"} in found["quintain_episodes"]
        assert {"terminal_reason": "done", "failure_owner": "verifier", "stage": "completed"} in found[
            "quintain_episodes"
        ]
        assert found["quintain_verdicts"] == [
            {"mode": "code", "certainty": "certain"},
            {"mode": "code", "certainty": "uncertain"},
        ]
        assert [one["validity"] for one in found["quintain_rewards"]] == ["valid", "invalid"]
        assert {one["start_kind"] for one in found["quintain_ttfi_seconds"]} <= {"cold", "template_fork"}
        assert "toy_notes_1" not in answer.text
        for name in ("live_episodes", "hibernated_episodes", "queued_resets", "spool_bytes", "spool_full"):
            assert f"quintain_{name}" in found
        told = live.get("/stats").json()["quintain"]
        assert told["timings_ms"]["ttfi"][0]["count"] >= 1
        assert {"start_kind", "name", "count", "p50_ms", "p95_ms"} == told["timings_ms"]["stages"][0].keys()


def test_labels_stay_bounded_whatever_a_sandbox_says() -> None:
    metrics = Metrics()
    for number in range(300):
        metrics.ended(
            a_record(start_kind=f"kind{number}", segments_ms={f"made_up_{number}": 1.0}, terminal_reason=f"x{number}")
        )
    found = samples(metrics.text().decode())
    assert {one["segment"] for one in found["quintain_start_segment_seconds"]} == {OTHER}
    assert {one["start_kind"] for one in found["quintain_start_segment_seconds"]} == {OTHER}
    assert {one["terminal_reason"] for one in found["quintain_episodes"]} == {OTHER}
    assert len(metrics.timings()["segments"]) == 1
    assert OTHER not in SEGMENTS


def test_what_cuts_an_episode_off_is_the_infrastructure_failure_that_the_table_says() -> None:
    ends = {reason for reason in TerminalReason if TABLE[reason].component in ("client", "operator")}
    cancelled = {TerminalReason.CANCELLED, TerminalReason.CANCELLED_AT_START}
    assert {reason for reason in ends - cancelled if TABLE[reason].owner is Owner.INFRASTRUCTURE} == CUT_OFF
