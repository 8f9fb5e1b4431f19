"""Verdicts of sql and hybrid mode: what they say, whose failure they are, and what they let out."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quintain.contracts.record import StepRecord
from quintain.contracts.reward import RewardMap
from quintain.errors import Owner, UnknownTaskError
from quintain.tasks.base import Verifier, VerifierMode
from quintain.verifiers.base import VERDICT_MODES, About, Certainty, Verdict
from quintain.verifiers.judged import JudgedVerifier, verdict_digest
from quintain.verifiers.judging import JudgeSettings
from verifiers.judge_bench import KEY, Bench, open_bench
from verifiers.judge_server import Behaviour, answer, respond, says
from verifiers.test_code import database

pytestmark = pytest.mark.asyncio

READS = """
import sqlite3
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    def notes(path):
        return [row[0] for row in sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT text FROM notes")]
    return {"before": notes(initial_db_path), "after": notes(final_db_path), "given": final_answer}
"""

EVIDENCE = {"before": ["one"], "after": ["one", "buy milk"], "given": None}


def returning(mode: VerifierMode, expression: str) -> Verifier:
    code = f"def verify_task_completion(a, b, c=None):\n    return {expression}\n"
    return Verifier(scenario="toy_notes_1", task_idx=0, mode=mode, code=code)


SQL = Verifier(
    scenario="toy_notes_1",
    task_idx=0,
    mode="sql",
    code=READS,
    reasoning="Compare the notes.",
    success_criteria="after has 'buy milk'.",
    failure_criteria="after has no 'buy milk'.",
)
CODE: dict[str, Verifier] = {
    "complete": returning("code", "{'result': 'complete'}"),
    "incomplete": returning("code", "{'result': 'others'}"),
    "uncertain": returning("code", "1 / 0"),
}
JUDGES: dict[str, Behaviour] = {
    "complete": says(answer("complete", 0.9, "there is milk")),
    "incomplete": says(answer("incomplete", 0.9, "there is no milk")),
    "agent_error": says(answer("agent_error", 0.9, "it bought oil")),
    "server_error": says(answer("server_error", 0.9, "add_note broke")),
    "uncertain": respond(401, "no"),
    "outage": respond(503, "down"),
}
BROKE = StepRecord(
    index=1,
    action="call_tool",
    tool_name="add_note",
    reward_type="server_error",
    failure_owner=Owner.ENVIRONMENT,
    started=1.0,
    duration_ms=1.0,
)
ABOUT = About(task="Buy milk.", steps=(BROKE,))


@dataclass
class Stage:
    """A judged verifier over a toy world and an endpoint."""

    bench: Bench
    verifier: JudgedVerifier
    world: Any
    folder: Path

    async def score(self, mode: Any, verifiers: Mapping[Any, Verifier], answer: str | None = None) -> Verdict:
        initial = database(self.folder / "a.db", "one")
        final = database(self.folder / "b.db", "one", "buy milk")
        try:
            return await self.verifier.score(mode, verifiers, initial, final, answer, ABOUT)
        finally:
            assert self.world.provider.live == 0
            for name in ("a.db", "b.db"):
                (self.folder / name).unlink()


@pytest.fixture
def open_stage(open_world: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(judge: Behaviour | None = None, **options: Any) -> AsyncIterator[Stage]:
        async with open_world() as world, open_bench() as bench:
            if judge is not None:
                bench.server.otherwise = judge
            settings = bench.settings(max_retries=1, **options)
            yield Stage(bench, JudgedVerifier(world.verifier, bench.judge, settings), world, tmp_path)

    return opened


@pytest.mark.parametrize(
    ("judge", "reward_type", "reward", "owner"),
    [
        ("complete", "complete", 1.0, None),
        ("incomplete", "incomplete", 0.1, None),
        ("agent_error", "agent_error", 0.0, None),
        ("server_error", "server_error", 0.0, Owner.ENVIRONMENT),
        ("uncertain", "judge_error", 0.0, Owner.VERIFIER),
        ("outage", "judge_error", 0.0, Owner.INFRASTRUCTURE),
    ],
)
async def test_what_a_judgment_becomes(
    open_stage: Callable[..., Any], judge: str, reward_type: str, reward: float, owner: Owner | None
) -> None:
    async with open_stage(JUDGES[judge]) as stage:
        found = await stage.score("sql", {"sql": SQL}, "I did.")
        assert (found.mode, found.reward_type, found.failure_owner) == ("sql", reward_type, owner)
        assert found.certain is (owner is None)
        assert RewardMap().value(found.reward_type) == reward
        assert found.evidence == EVIDENCE
        if found.certain:
            assert found.result == reward_type
            assert found.value["confidence"] == 0.9
            assert found.value["judge"]["model"] == "judge-1"
            assert found.verify_result["result"] == reward_type
        else:
            assert set(found.verify_result) == {"execution_status", "error_message"}


async def test_the_judge_is_told_the_case_and_the_wire_is_told_no_row(open_stage: Callable[..., Any]) -> None:
    async with open_stage(JUDGES["agent_error"]) as stage:
        found = await stage.score("sql", {"sql": SQL}, "I bought oil.")
        (asked,) = stage.bench.server.asked
        assert asked.task == {
            "task": "Buy milk.",
            "success_criteria": "after has 'buy milk'.",
            "failure_criteria": "after has no 'buy milk'.",
            "author_note": "Compare the notes.",
        }
        assert asked.data["evidence"] == EVIDENCE
        assert asked.data["final_answer"] == "I bought oil."
        assert asked.data["trace"]["environment_failures"] == 1
        told = json.dumps(found.verify_result)
        assert found.verify_result["raw_result"]["reasons"] == ["it bought oil"]
        assert "buy milk" not in told
        assert "before" not in told
        assert KEY not in found.model_dump_json() + repr(found)


def expected(code: str, judge: str) -> tuple[str, Owner | None, str | None]:
    """Reward type, owner and result of the hybrid verdict."""
    if code == "uncertain":
        return "judge_error", Owner.VERIFIER, None
    if judge == "server_error":
        return "server_error", Owner.ENVIRONMENT, None
    if judge in ("uncertain", "outage"):
        return "judge_error", Owner.VERIFIER if judge == "uncertain" else Owner.INFRASTRUCTURE, None
    if (code == "complete") != (judge == "complete"):
        return "judge_error", Owner.VERIFIER, None
    return judge, None, judge


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("code", CODE)
async def test_hybrid_is_certain_only_where_both_are_and_agree(
    open_stage: Callable[..., Any], code: str, judge: str
) -> None:
    async with open_stage(JUDGES[judge]) as stage:
        found = await stage.score("hybrid", {"code": CODE[code], "sql": SQL})
        assert (found.reward_type, found.failure_owner, found.result) == expected(code, judge)
        assert found.mode == "hybrid"
        assert found.certain is (found.failure_owner is None)
        if code == "uncertain":
            assert "the code:" in found.reason
            assert stage.bench.server.asked == [], "a judge that cannot change the verdict costs money"
            return
        word = "complete" if code == "complete" else "others"
        assert found.value["code"] == {"result": word}
        if found.certain:
            assert found.reason is None
            assert found.value["judge"]["result"] == judge
        else:
            assert word in found.reason
            assert (judge in found.reason) or judge not in ("complete", "incomplete", "agent_error")


@pytest.mark.parametrize("code", CODE)
async def test_where_a_task_has_code_alone_hybrid_is_the_code_and_needs_no_judge(
    open_stage: Callable[..., Any], code: str
) -> None:
    async with open_stage() as stage:
        stage.verifier = JudgedVerifier(stage.world.verifier, stage.bench.judge)
        alone = await stage.score("code", {"code": CODE[code]})
        hybrid = await stage.score("hybrid", {"code": CODE[code]})
        assert hybrid == alone.model_copy(update={"mode": "hybrid"})
        assert stage.bench.server.asked == []


@pytest.mark.parametrize("judge", JUDGES)
async def test_where_a_task_has_sql_alone_hybrid_is_the_judge(open_stage: Callable[..., Any], judge: str) -> None:
    async with open_stage(JUDGES[judge]) as stage:
        alone = await stage.score("sql", {"sql": SQL})
        hybrid = await stage.score("hybrid", {"sql": SQL})
        same = {"mode": "hybrid", "digest": hybrid.digest}
        assert hybrid == alone.model_copy(update=same)


async def test_a_mode_that_the_task_has_no_verifier_for_is_an_error(open_stage: Callable[..., Any]) -> None:
    async with open_stage() as stage:
        for mode, verifiers in [("sql", {"code": CODE["complete"]}), ("code", {"sql": SQL}), ("hybrid", {})]:
            with pytest.raises(UnknownTaskError, match="verifier"):
                await stage.score(mode, verifiers)


@pytest.mark.parametrize("mode", ["sql", "hybrid"])
async def test_without_a_judge_it_says_what_to_set_and_runs_nothing(open_stage: Callable[..., Any], mode: str) -> None:
    async with open_stage() as stage:
        stage.verifier = JudgedVerifier(stage.world.verifier, stage.bench.judge)
        found = await stage.score(mode, {"code": CODE["complete"], "sql": SQL})
        assert (found.reward_type, found.certain, found.failure_owner) == ("judge_error", False, Owner.VERIFIER)
        assert "OPENENV_AWM_LLM_BASE_URL" in str(found.reason)
        assert found.evidence is None
        assert "milk" not in found.model_dump_json()


async def test_an_episode_may_bring_its_own_judge(open_stage: Callable[..., Any], tmp_path: Path) -> None:
    async with open_stage(JUDGES["complete"]) as stage, open_bench() as own:
        own.server.otherwise = JUDGES["incomplete"]
        initial, final = database(tmp_path / "a.db", "one"), database(tmp_path / "b.db", "one")
        about = About(task="Buy milk.", judge=own.settings(model="judge-9"))
        found = await stage.verifier.score("sql", {"sql": SQL}, initial, final, None, about)
        assert (found.reward_type, found.value["judge"]["model"]) == ("incomplete", "judge-9")
        assert found.digest == verdict_digest("sql", {"sql": SQL}, about.judge)
        assert stage.bench.server.asked == []


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("time.sleep(3)", "time limit"),
        ("{'execution_status': 'error', 'error_message': 'no such table'}", "no such table"),
        ("{'rows': ['x' * 1000] * 400}", "over 262144"),
        ("{'rows': float('nan')}", "no evidence"),
    ],
)
async def test_evidence_that_cannot_be_had_is_the_verifiers_failure_and_asks_nobody(
    open_stage: Callable[..., Any], expression: str, reason: str
) -> None:
    async with open_stage() as stage:
        found = await stage.score("sql", {"sql": returning("sql", expression)})
        assert (found.reward_type, found.status) == ("judge_error", Certainty.UNCERTAIN)
        assert found.failure_owner is Owner.VERIFIER
        assert reason in str(found.reason)
        assert stage.bench.server.asked == []


@pytest.mark.parametrize("value", ["None", "[]", "[1, 'two']", "'text'", "10**400", "{'rows': []}"])
async def test_evidence_may_be_any_json(open_stage: Callable[..., Any], value: str) -> None:
    async with open_stage() as stage:
        found = await stage.score("sql", {"sql": returning("sql", value)})
        assert found.reward_type == "complete", found.reason
        assert stage.bench.server.asked[0].data["evidence"] == eval(value)


@pytest.mark.parametrize("mode", VERDICT_MODES)
async def test_the_digest_tells_apart_what_could_change_a_verdict(mode: Any) -> None:
    own = JudgeSettings(base_url="https://judge.example/v1", model="m")
    both: dict[VerifierMode, Verifier] = {"code": CODE["complete"], "sql": SQL}
    digest = verdict_digest(mode, both, own)
    elsewhere = own.model_copy(update={"base_url": "https://mirror.example/v1", "max_retries": 9})
    assert verdict_digest(mode, both, elsewhere) == digest
    judged = mode != "code"
    assert (verdict_digest(mode, both, own.over(model="n")) != digest) is judged
    assert (verdict_digest(mode, both, None) != digest) is judged
    other: dict[VerifierMode, Verifier] = {**both, "sql": SQL.model_copy(update={"code": READS + "\n"})}
    assert (verdict_digest(mode, other, own) != digest) is judged
    others = [verdict_digest(one, both, own) for one in VERDICT_MODES if one != mode]
    assert digest not in others
    if mode == "code":
        assert digest == CODE["complete"].digest


async def test_the_digest_of_a_verdict_is_known_before_it_is_asked_for(open_stage: Callable[..., Any]) -> None:
    both = {"code": CODE["complete"], "sql": SQL}
    async with open_stage() as stage:
        for mode in VERDICT_MODES:
            known = stage.verifier.digest(mode, both, ABOUT)
            assert (await stage.score(mode, both)).digest == known
            stage.bench.server.otherwise = JUDGES["outage"]
            assert (await stage.score(mode, both, f"again in {mode}")).digest == known
            stage.bench.server.otherwise = JUDGES["complete"]
