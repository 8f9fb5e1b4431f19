"""What an episode is made from: the request for it, the rooms it passes through, and its identity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from quintain.artifacts import ArtifactStore
from quintain.contracts.descriptor import EnvironmentEpisode, EpisodeSpec
from quintain.contracts.identity import Seed, cas_uri, digest_of
from quintain.contracts.record import StepRecord
from quintain.contracts.reward import AWM, RewardContract
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.verification import VerifyPolicy
from quintain.environments.base import EnvironmentKind, EpisodeClass, ToolOutcome
from quintain.episodes.admission import Admission
from quintain.errors import DatasetError
from quintain.records import MAX_ATTEMPT, ModelDigest, ScoreLedger
from quintain.sandboxes.base import SandboxProvider
from quintain.sandboxes.disposal import Disposal
from quintain.tasks.base import TaskPolicy, TaskSource, Verifier, VerifierMode, verifier_bundle
from quintain.verifiers.base import About, VerifierRunner
from quintain.verifiers.judging import JudgeSettings

JsonObject = dict[str, Any]


class EpisodeRequest(BaseModel):
    """Which episode is wanted. `task` is custom text in place of the task's own; then there is no verifier."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scenario: str
    task_idx: int | None = None
    task: str | None = None
    seed: Seed = 0
    client_episode_id: str | None = None
    model_digest: ModelDigest
    attempt: int | None = Field(
        default=None, ge=0, le=MAX_ATTEMPT, description="None: the next one of this episode and model"
    )
    contract: RewardContract = AWM
    verify: VerifyPolicy = VerifyPolicy.CONTROL_ONLY
    judge: JudgeSettings | None = Field(default=None, description="None: the judge of whoever runs the episode")


@dataclass(frozen=True)
class Rooms:
    """What an episode passes through, in this order."""

    source: TaskSource
    kinds: Mapping[str, EnvironmentKind]
    """The kinds of environment, by the name that a scenario gives its own."""
    provider: SandboxProvider
    """What the sandboxes of all kinds come from, and of the verifier."""
    disposal: Disposal
    """Where sandboxes go that are done with."""
    verifier: VerifierRunner
    ledger: ScoreLedger
    admission: Admission
    """Bounds how many episodes start at once, and lets none start while memory is short."""
    scratch: Path
    """This run's scratch directory: where state lies between sandboxes."""
    states: ArtifactStore | None = None
    """Where the states of episodes are kept, by digest; None: they are not."""
    start_timeout_s: float = 180.0
    run: str = "local"
    """Names this run in the ledger."""
    shortfall: str = ""
    """Why sandboxes are not isolated more strongly, in one line; empty at the strongest level."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Of the platform, and of what its kinds of environment run on."""
        return {name: one for kind in self.kinds.values() for name, one in kind.episode_class.versions.items()}

    def kind(self, name: str) -> EnvironmentKind:
        """The kind of environment of that name.

        Raises:
            DatasetError: there is none here.
        """
        try:
            return self.kinds[name]
        except KeyError:
            known = ", ".join(sorted(self.kinds))
            raise DatasetError(f"no environment is of kind {name[:100]!r} here; there are {known}") from None


@dataclass(frozen=True)
class ResolvedTask:
    """A request resolved against the task source."""

    scenario: str
    kind: str
    task: str | None
    task_idx: int | None
    payload_digest: str
    dataset_digest: str
    verifiers: Mapping[VerifierMode, Verifier]
    policy: TaskPolicy | None = None
    start: JsonObject | None = None
    """What the task and its seed vary of the initial state."""
    variables: JsonObject | None = None
    """What the seed drew for the task."""

    @cached_property
    def task_digest(self) -> str:
        """Digest of what the episode is about: the payload and the task set in it."""
        told = {"payload": self.payload_digest, "task": self.task, "task_idx": self.task_idx}
        return digest_of(told if self.start is None else told | {"start": self.start})

    @cached_property
    def verifier_digest(self) -> str:
        """Digest of the task's verifiers of all modes; of an empty bundle where it has none."""
        return digest_of(verifier_bundle(self.verifiers.values()))

    def about(self, steps: Sequence[StepRecord], judge: JudgeSettings | None) -> About:
        """What a verifier is told of an attempt beside the states."""
        changes = self.policy is not None and self.policy.writable_tables is not None
        return About(task=self.task or "", steps=steps, judge=judge, changes=changes, variables=self.variables)


def resolve(source: TaskSource, request: EpisodeRequest) -> ResolvedTask:
    """The task a request names. Reads files, so not for the event loop.

    Raises:
        UnknownTaskError: no such scenario or task.
        DatasetError: the scenario's rows are missing or unreadable.
    """
    ref = source.task(request.scenario, request.task_idx, request.seed)
    verifiers: Sequence[Verifier] = ()
    policy: TaskPolicy | None = None
    if request.task is None and ref.task_idx is not None:
        verifiers = source.verifiers(ref.scenario, ref.task_idx)
        policy = source.policy(ref.scenario, ref.task_idx)
    return ResolvedTask(
        scenario=ref.scenario,
        kind=ref.kind,
        task=ref.text if request.task is None else request.task,
        task_idx=ref.task_idx,
        payload_digest=source.payload_digest(ref.scenario),
        dataset_digest=source.dataset_of(ref.scenario),
        verifiers={verifier.mode: verifier for verifier in verifiers if verifier.code.strip()},
        policy=policy,
        start=ref.start,
        variables=ref.variables,
    )


def descriptor(episode_class: EpisodeClass, task: ResolvedTask, seed: int) -> EnvironmentEpisode:
    """The descriptor that rebuilds an episode; its ids are the episode's identity."""
    return EnvironmentEpisode(
        spec=EpisodeSpec(
            environment_class=episode_class.environment_class,
            dependency_lock=episode_class.dependency_lock,
            runtime=episode_class.runtime,
            tool_contract=episode_class.tool_contract,
            policy_digest=episode_class.policy,
            task_payload=cas_uri(task.task_digest),
            dataset_manifest=cas_uri(task.dataset_digest),
            verifier_image=cas_uri(task.verifier_digest),
            seed=seed,
            limits=episode_class.limits,
        )
    )


class Agent(Protocol):
    """What acts in an episode: a model, a script, a reference solution."""

    @property
    def final_answer(self) -> str | None:
        """What it says at the end."""
        ...

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        """The next call, given the tools and what the last call came to; None when it is finished."""
        ...
