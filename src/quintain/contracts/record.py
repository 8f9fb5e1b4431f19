"""What an episode leaves behind: its steps and its record. Immutable, versioned evidence."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.identity import Digest, Seed
from quintain.contracts.lifecycle import StageStamp
from quintain.contracts.reward import Reward
from quintain.contracts.signals import Signals
from quintain.contracts.terminal import Failure
from quintain.contracts.turns import TurnRecord
from quintain.contracts.verification import VerifyPolicy
from quintain.errors import Owner

JsonObject = dict[str, Any]


class Omitted(BaseModel):
    """What a record does not hold: its digest and size, of the text itself or else of its JSON with sorted keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: Digest
    size_bytes: int


class StepRecord(BaseModel):
    """One action and what came of it.

    Once an episode is over the budget of what a record may hold, what is large is absent and `omitted` tells of it,
    by the field's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=1, description="1 for the episode's first step")
    action: Literal["list_tools", "call_tool", "verify"]
    tool_name: str | None = None
    arguments: JsonObject | None = None
    reward_type: str | None = None
    reward: float | None = None
    result: str | None = None
    error: str | None = None
    warning: str | None = None
    verify_result: JsonObject | None = None
    evidence: Any = Field(default=None, description="What a judge was shown of the databases")
    failure_owner: Owner | None = None
    omitted: dict[str, Omitted] | None = None
    started: float = Field(description="Seconds since 1970 (UTC)")
    duration_ms: float


class KeptTurn(TurnRecord):
    """A turn as a record holds it: as with steps, what is over the record's budget is absent and told of by name."""

    omitted: dict[str, Omitted] | None = None


class StateBlob(BaseModel):
    """One file of a kept state; its bytes are where the digest finds them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[^/\x00]{1,255}$")
    digest: Digest
    size_bytes: int = Field(ge=0)


class KeptStates(BaseModel):
    """The states of an episode that were kept: the database first, then the side files that belong to it.

    They are as the sandbox wrote them: nothing is redacted, and only sandboxes may open them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    initial: tuple[StateBlob, ...] | None = None
    final: tuple[StateBlob, ...] | None = None
    scored: tuple[StateBlob, ...] | None = Field(
        default=None, description="What the reward was given on, where calls came after it; else that is `final`"
    )
    problem: str | None = Field(default=None, max_length=500, description="Why a state is missing, where one is")


class EpisodeRecord(BaseModel):
    """One attempt at one episode."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    environment_class_id: Digest | None = Field(description="None when the episode failed before it was resolved")
    episode_id: Digest | None
    client_episode_id: str | None = Field(default=None, description="The client's label; never identity")
    scenario: str
    task_idx: int | None = None
    task: str | None = None
    task_payload_digest: Digest | None = None
    dataset_digest: Digest | None = None
    verifier_digest: Digest | None = None
    task_policy_digest: Digest | None = None
    seed: Seed
    attempt: int = Field(ge=0)
    model_digest: str
    terminal_reason: str
    truncated: bool | None = Field(default=None, description="Whether a limit cut it off; None: it was not told")
    failure_owner: Owner | None = Field(default=None, description="Set when the reward must not be used")
    environment_failures: int = Field(default=0, ge=0, description="Tool calls that failed by the environment's fault")
    hibernations: int = Field(default=0, ge=0, description="How often it gave its process back while it was idle")
    reward_type: str | None = None
    reward: float | None = Field(default=None, description="The first certain verdict's; None when there is none")
    reward_valid: bool
    reward_contract_digest: Digest
    reward_terms: Reward | None = Field(default=None, description="How the contract came to the reward")
    signals: Signals | None = Field(default=None, description="What the reward was made from, at the first verdict")
    verify_policy: VerifyPolicy = VerifyPolicy.CONTROL_ONLY
    start_kind: str | None = None
    stages: tuple[StageStamp, ...]
    segments_ms: dict[str, float] = Field(default_factory=dict)
    steps: tuple[StepRecord, ...]
    turns: tuple[KeptTurn, ...] | None = Field(default=None, description="The agent's, where it tells of them")
    states: KeptStates | None = Field(default=None, description="None: they were not kept")
    failure: Failure | None = Field(default=None, description="What went wrong, where something did")
    retried: tuple[Failure, ...] | None = Field(
        default=None, description="Why it was begun or verified again, in order"
    )
    rollout_plan: Digest | None = Field(default=None, description="The plan of the rollout that it was part of")
    rollout_item: str | None = Field(default=None, description="Which item of that plan it is")
    versions: dict[str, str] = Field(default_factory=dict)
