"""An episode's steps while it runs, and the files kept of it."""

import asyncio
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from quintain.contracts.identity import sha256
from quintain.contracts.record import EpisodeRecord, KeptTurn, Omitted, StepRecord
from quintain.contracts.tools import shown_name
from quintain.contracts.turns import TurnRecord
from quintain.contracts.untrusted import json_problem, weight
from quintain.environments.base import ToolOutcome
from quintain.episodes.scoring import Scored
from quintain.sandboxes.base import StateFile

JsonObject = dict[str, Any]

BUDGET_BYTES: Final = 16 * 2**20
"""About how much memory the arguments, results, errors and verdicts that one episode keeps may take; after that a step
keeps digest and size alone of what is large."""

_SMALL_BYTES: Final = 1024
"""What takes no more than this is kept even so."""

LOG_BUDGET_CHARS: Final = 2**20

_LARGE_OF_A_TURN: Final[Mapping[str, Any]] = {
    "tokens": {},
    "reply": None,
    "messages": [],
    "calls": [],
    "reasoning": None,
    "refusal": None,
    "retried": [],
}
"""Fields of a turn that may be large, with what stands for each where it is left out; those to be kept first."""

_NAMES_ANOTHER_FILE: Final = bytes.fromhex("d9d505f920a163d7")
"""How a rollback journal ends that names a super-journal, which SQLite would delete, whatever file it is."""


MAX_STEPS: Final = 10_000
"""Most steps of an episode: what is recorded of it is held in memory, and looked through when it is verified."""


class Trajectory:
    """The steps taken so far, within a memory budget."""

    def __init__(self) -> None:
        self._steps: list[StepRecord] = []
        self._left = BUDGET_BYTES
        self._log: list[str] = []
        self._log_left = LOG_BUDGET_CHARS

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """The steps, in order."""
        return tuple(self._steps)

    @property
    def last(self) -> StepRecord | None:
        """The latest."""
        return self._steps[-1] if self._steps else None

    @property
    def calls(self) -> int:
        """How many of them are calls."""
        return sum(step.action == "call_tool" for step in self._steps)

    @property
    def full(self) -> bool:
        """Whether no further step of the agent is taken."""
        return len(self._steps) >= MAX_STEPS

    @property
    def log(self) -> str:
        """One line per call, with what the call printed under it."""
        return "".join(self._log)

    def listed(self) -> None:
        """The tools were listed."""
        self._add(StepRecord(index=self._next, action="list_tools", started=time.time(), duration_ms=0.0))

    def called(self, name: str, arguments: JsonObject, outcome: ToolOutcome, reward: float) -> None:
        """A tool was called. Arguments that JSON cannot carry are recorded as absent; the error says why."""
        given = {
            "arguments": arguments if json_problem(arguments) is None else None,
            "result": outcome.text,
            "error": outcome.error,
        }
        self._add(
            StepRecord(
                index=self._next,
                action="call_tool",
                tool_name=shown_name(name),
                **self._within_budget(given),
                reward_type="tool_call_ok" if outcome.status == "ok" else outcome.status.value,
                reward=reward,
                warning=outcome.warning,
                failure_owner=outcome.owner,
                started=time.time() - outcome.duration_ms / 1000,
                duration_ms=outcome.duration_ms,
            )
        )
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._write(f"{stamp} call {name[:200]} -> {outcome.status} in {outcome.duration_ms:.1f} ms\n{outcome.log}")

    def verified(self, scored: Scored, final_answer: str | None, reward: float, duration_ms: float) -> None:
        """A verdict was given, or an earlier one told again."""
        verdict = scored.verdict
        given = {
            "arguments": {"verifier_mode": verdict.mode, "final_answer": final_answer},
            "error": verdict.reason,
            "verify_result": verdict.verify_result,
            "evidence": verdict.evidence,
        }
        self._add(
            StepRecord(
                index=self._next,
                action="verify",
                **self._within_budget(given),
                reward_type=verdict.reward_type,
                reward=reward,
                warning=scored.note,
                failure_owner=scored.owner,
                started=time.time() - duration_ms / 1000,
                duration_ms=duration_ms,
            )
        )

    def kept(self, turns: Sequence[TurnRecord]) -> tuple[KeptTurn, ...]:
        """An agent's turns, within what room its steps have left. Call it once, at the end."""
        return tuple(self._kept_turn(turn) for turn in turns)

    def _kept_turn(self, turn: TurnRecord) -> KeptTurn:
        document = turn.model_dump(mode="json")
        fields = self._within_budget({name: document[name] for name in _LARGE_OF_A_TURN})
        missing = {name: _LARGE_OF_A_TURN[name] for name in fields["omitted"] or {}}
        return KeptTurn.model_validate({**document, **fields, **missing})

    @property
    def _next(self) -> int:
        return len(self._steps) + 1

    def _within_budget(self, given: Mapping[str, Any]) -> JsonObject:
        """The fields of a step that may be large, as far as there is room for them."""
        kept: JsonObject = {}
        omitted: dict[str, Omitted] = {}
        for name, value in given.items():
            size = weight(value)
            if size <= max(self._left, _SMALL_BYTES):
                kept[name] = value
                self._left -= size
            else:
                text = (value if isinstance(value, str) else json.dumps(value, sort_keys=True)).encode()
                omitted[name] = Omitted(digest=sha256(text), size_bytes=len(text))
        return {**kept, "omitted": omitted or None}

    def _add(self, step: StepRecord) -> None:
        self._steps.append(step)

    def _write(self, text: str) -> None:
        text = text if text.endswith("\n") else text + "\n"
        if self._log_left <= 0:
            return
        if len(text) > self._log_left:
            text = text[: self._log_left] + "\n(the log ends here: it reached its size limit)\n"
        self._log_left -= len(text)
        self._log.append(text)


def initial_name(scenario: str, state: str, file: str) -> str:
    """What a file of the initial state is called where it is kept beside the final one; `state` is the main file."""
    return f"{scenario}_initial{Path(state).suffix}{file.removeprefix(state)}"


async def keep_state(directory: Path, scenario: str, initial: Sequence[StateFile], code: str, log: str) -> None:
    """Keep the initial database, the scenario's code and the log of its calls beside the final database.

    A journal that names another file is not kept: whoever opens the database would have that file deleted. SQLite takes
    such a journal for stale where the file is missing.
    """

    def write() -> None:
        database = initial[0].name if initial else ""
        for file in initial:
            shutil.copyfile(file.path, directory / initial_name(scenario, database, file.name))
        (directory / "server.py").write_text(code, encoding="utf-8")
        (directory / "server.log").write_text(log, encoding="utf-8")
        for path in directory.iterdir():
            path.chmod(0o600)
            if path.name.endswith("-journal") and path.read_bytes().endswith(_NAMES_ANOTHER_FILE):
                path.unlink()

    await asyncio.to_thread(write)


async def keep_trajectory(directory: Path, record: EpisodeRecord, steps_taken: int) -> Path:
    """Write `trajectory.json`: what happened, for people and for training, with the whole record under `record`."""
    path = directory / "trajectory.json"

    def write() -> None:
        document = record.model_dump(mode="json")
        trajectory = [
            {key: value for key, value in step.items() if value is not None} for step in document.pop("steps")
        ]
        content = {
            "scenario": record.scenario,
            "task": record.task,
            "task_idx": record.task_idx,
            "steps": steps_taken,
            "trajectory": trajectory,
            "record": document,
        }
        path.write_text(json.dumps(content, indent=2), encoding="ascii")
        path.chmod(0o600)

    await asyncio.to_thread(write)
    return path
