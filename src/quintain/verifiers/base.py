"""What a verifier says of an episode, and when it is not to be believed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from quintain.contracts.identity import Digest
from quintain.contracts.record import StepRecord
from quintain.errors import Owner
from quintain.sandboxes.base import StateFile
from quintain.tasks.base import Verifier, VerifierMode
from quintain.verifiers.changes import StateChanges
from quintain.verifiers.judging import JudgeSettings

JsonObject = dict[str, Any]

VerdictMode = Literal["code", "sql", "hybrid"]
"""How a verdict is reached: by a task's code, by a judge over its sql evidence, or by both."""

VERDICT_MODES: tuple[VerdictMode, ...] = ("code", "sql", "hybrid")

MAX_VERIFY_RESULT_BYTES: Final = 64 * 1024
"""Largest `verify_result`, as JSON; of a larger one only the verifier's word is told."""


class Certainty(StrEnum):
    """Whether a verdict may be used as a score."""

    CERTAIN = "certain"
    UNCERTAIN = "uncertain"


class Verdict(BaseModel):
    """One verifier's word on one final state.

    `reward_type` of a certain one is complete, incomplete or agent_error. Of one that is not to be used it is
    judge_error, or server_error where a judge found the environment to blame; then `reason` says why and
    `failure_owner` whose failure it is. `result` is the verifier's own word, `value` its whole answer. `evidence` is
    what a judge was shown of the databases: it is for the record and never travels in `verify_result`. `changes` are
    the tables that differ between the two databases, where that was asked for and could be told.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: VerdictMode
    reward_type: str
    status: Certainty
    result: str | None = None
    value: Any = None
    evidence: Any = None
    changes: StateChanges | None = None
    log: str = ""
    reason: str | None = None
    failure_owner: Owner | None = None
    digest: Digest

    @property
    def certain(self) -> bool:
        """Whether the verdict may be used as a score."""
        return self.status is Certainty.CERTAIN

    @property
    def verify_result(self) -> JsonObject:
        """The verdict as an observation's `verify_result`, within its size limit."""
        if self.certain:
            told = {"result": self.result, "execution_status": "success"}
            whole = {**told, "raw_result": self.value}
            size = len(json.dumps(whole))
            if size <= MAX_VERIFY_RESULT_BYTES:
                return whole
            return {**told, "omitted": f"raw_result: all is {size} bytes of JSON, over {MAX_VERIFY_RESULT_BYTES}"}
        return {"execution_status": "error", "error_message": self.reason}


def uncertain(mode: VerdictMode, digest: str, reason: str, *, owner: Owner = Owner.VERIFIER, log: str = "") -> Verdict:
    """A verdict that is not to be used, with the reason."""
    return Verdict(
        mode=mode,
        reward_type="judge_error",
        status=Certainty.UNCERTAIN,
        log=log,
        reason=reason,
        failure_owner=owner,
        digest=digest,
    )


@dataclass(frozen=True)
class About:
    """What a judge needs beside the two states: the task, the steps taken, and which judge the episode asked for."""

    task: str = ""
    steps: Sequence[StepRecord] | None = None
    """None: nobody knows; then a judge may blame the environment without any call that failed."""
    judge: JudgeSettings | None = None
    """None: the verifier's own."""
    changes: bool = False
    """Whether the verdict is to tell which tables changed."""
    variables: JsonObject | None = None
    """What the episode's seed drew for the task."""


class VerifierRunner(Protocol):
    """Verifies the final state of an episode, in any mode that its task has verifiers for."""

    def digest(self, mode: VerdictMode, verifiers: Mapping[VerifierMode, Verifier], about: About | None = None) -> str:
        """What a verdict in this mode depends on, known before there is one: part of the score key.

        Raises:
            UnknownTaskError: the task has no verifier for the mode.
        """
        ...

    async def score(
        self,
        mode: VerdictMode,
        verifiers: Mapping[VerifierMode, Verifier],
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        final_answer: str | None,
        about: About | None = None,
    ) -> Verdict:
        """The verdict; what fails gives an uncertain one.

        Args:
            initial: the files of the state the episode began with; the first is the database.
            final: the files of the state it ended with; the first is the database.
            about: what a judge needs beside them, and what else is to be told.

        Raises:
            UnknownTaskError: the task has no verifier for the mode.
        """
        ...
