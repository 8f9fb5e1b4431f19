"""Verification by a task's own code, in a sandbox of the verifier class.

The code gets the initial and the final state, both read-only, the final answer and, if it asks for them, the trace of
what the agent did and what the seed drew for the task; no network, nothing else. States are databases, or JSON that
is read for it in the sandbox, or trees that are unpacked there. What an sql verifier returns is evidence and no
verdict; it is run by the same path. Its answer comes back over the sandbox's channel, so what it prints cannot be
mistaken for a verdict.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from quintain.contracts.identity import digest_of
from quintain.contracts.record import StepRecord
from quintain.contracts.untrusted import json_problem, whole_text
from quintain.errors import (
    CallTimeout,
    Owner,
    QuintainError,
    ResultTooLarge,
    SandboxLost,
    VerifierError,
)
from quintain.sandboxes.base import JsonObject, Sandbox, SandboxClass, SandboxProvider, StateFile
from quintain.sandboxes.disposal import Disposal
from quintain.tasks.base import HiddenTests, Verifier
from quintain.verifiers.base import About, Certainty, Verdict, uncertain
from quintain.verifiers.changes import StateChanges
from quintain.verifiers.trace import action_trace
from quintain.verifiers.workspace import TREES_DISK_BYTES, RunsTests

TIME_LIMIT_S: Final = 20.0
_TRACE = "trace"
_VARIABLES = "variables"
_MAX_LOG = 64 * 1024
_MAX_REASON = 2000
_MAX_RESULT_WORD = 200
_LOG = logging.getLogger(__name__)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    status: Literal["ok", "error"]
    value: Any = None
    error: str | None = None
    log: str = ""


@dataclass(frozen=True)
class _States:
    """The two states under the names that the sandbox has for them, by whose suffix it knows their form."""

    initial: str
    final: str
    files: tuple[StateFile, ...]

    @classmethod
    def of(cls, initial: Sequence[StateFile], final: Sequence[StateFile]) -> "_States":
        given = initial[0].name if initial else ""
        suffix = next((one for one in (".json", ".tar") if given.endswith(one)), ".db")
        names = f"initial{suffix}", f"final{suffix}"
        return cls(*names, (*_renamed(initial, names[0]), *_renamed(final, names[1])))

    @property
    def databases(self) -> bool:
        return self.initial.endswith(".db")

    @property
    def trees(self) -> bool:
        return self.initial.endswith(".tar")

    def named(self, **more: Any) -> JsonObject:
        return {"initial": self.initial, "final": self.final, **more}


@dataclass(frozen=True)
class Returned:
    """What a verifier's code returned and printed, or why it returned nothing and whose failure that is."""

    value: Any = None
    log: str = ""
    problem: str | None = None
    owner: Owner = Owner.VERIFIER
    changes: StateChanges | None = None
    """Which tables differ, where that was asked for and could be told."""


class CodeVerifier:
    """Runs code verifiers, each in a sandbox of its own that is destroyed afterwards."""

    def __init__(
        self,
        provider: SandboxProvider,
        sandbox_class: SandboxClass,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        disposal: Disposal | None = None,
        tests: RunsTests | None = None,
    ) -> None:
        """`tests` runs the hidden tests of workspaces; None: none can be run."""
        self._provider = provider
        self._tests = tests
        self._disposal = disposal or Disposal()
        self._class = sandbox_class
        self._time_limit_s = time_limit_s
        self._key = digest_of({"class": sandbox_class.name, "role": "verifier"})

    async def verify(
        self,
        verifier: Verifier,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        final_answer: str | None,
        about: About | None = None,
    ) -> Verdict:
        """The verdict of the verifier's code; a verifier that fails gives an uncertain one, never an exception."""
        if verifier.mode != "code":
            return uncertain(
                verifier.mode, verifier.digest, f"{verifier.mode} verification needs a judge; use verifier_mode code"
            )
        about = about or About()
        returned = await self.run(
            verifier,
            initial,
            final,
            final_answer,
            steps=about.steps or (),
            changes=about.changes,
            variables=about.variables,
        )
        if returned.problem is not None:
            return uncertain(verifier.mode, verifier.digest, returned.problem, owner=returned.owner, log=returned.log)
        return _verdict(verifier, returned).model_copy(update={"changes": returned.changes})

    async def run(
        self,
        verifier: Verifier,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        final_answer: str | None,
        *,
        steps: Sequence[StepRecord] = (),
        changes: bool = False,
        variables: JsonObject | None = None,
    ) -> Returned:
        """Run the verifier's code on two states and return what it returned: any JSON value, not yet a verdict.

        Args:
            steps: what was done; code that names a parameter `trace` gets it as its trace.
            changes: tell also which tables differ between the two, where they are databases.
            variables: what the seed drew for the task; code that names a parameter `variables` gets it.
        """
        states = _States.of(initial, final)
        request = states.named(op="verify", code=verifier.code, final_answer=final_answer)
        if verifier.function is not None:
            request["function"] = verifier.function
        if _TRACE in verifier.code:
            request[_TRACE] = action_trace(steps)
        if _VARIABLES in verifier.code:
            request[_VARIABLES] = variables or {}
        try:
            if verifier.tests is not None:
                request["tests"] = await self._tested(verifier.tests, initial, final, variables)
            sandbox = await self._sandbox(states)
            try:
                # before the code runs: from then on nothing that the process says is to be relied on
                told = await self._changes(sandbox, states) if changes and states.databases else None
                with _attributed():
                    answer = await sandbox.call(request, self._time_limit_s)
            finally:
                await self._disposal.dispose(sandbox)
        except QuintainError as error:
            return Returned(problem=str(error)[:_MAX_REASON], owner=error.owner)
        return replace(_returned(answer), changes=told)

    async def _tested(
        self,
        tests: HiddenTests,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        variables: JsonObject | None,
    ) -> JsonObject:
        if self._tests is None:
            raise VerifierError("the task has hidden tests, and none are run here")
        return await self._tests.run(tests, initial, final, variables)

    async def _changes(self, sandbox: Sandbox, states: _States) -> StateChanges | None:
        """Which tables differ; None where that cannot be told, which says nothing against the verdict itself."""
        try:
            return StateChanges.read(await sandbox.call(states.named(op="changes"), self._time_limit_s))
        except (VerifierError, ResultTooLarge) as error:
            _LOG.info("what an episode changed cannot be told: %s", error)
            return None

    async def _sandbox(self, states: _States) -> Sandbox:
        try:
            return await self._claim(states)
        except SandboxLost:
            return await self._claim(states)  # the template had died; now there is a new one

    async def _claim(self, states: _States) -> Sandbox:
        template = await self._provider.template(self._class, self._key, {}, warm=True)
        limits = self._class.limits
        if states.trees:
            limits = replace(limits, disk_bytes=max(limits.disk_bytes, TREES_DISK_BYTES))
        return await self._provider.claim(template, states.named(), states.files, limits=limits, read_only=True)


@contextmanager
def _attributed() -> Iterator[None]:
    """A run of the code that fails is the verifier's failure; what fails before it keeps the platform's owner."""
    try:
        yield
    except CallTimeout as error:
        raise VerifierError(f"the verifier was stopped at its time limit: {error}") from error
    except SandboxLost as error:
        raise VerifierError(f"the verifier's process ended without a verdict: {error}") from error
    except ResultTooLarge as error:
        raise VerifierError(f"the verifier's answer is too large: {error}") from error


def _renamed(files: Sequence[StateFile], name: str) -> list[StateFile]:
    """The same files under the name a verifier sees; side files keep their suffix (`-wal`, `-journal`)."""
    if not files:
        return []
    database = files[0].name
    return [StateFile(name + file.name.removeprefix(database), file.path) for file in files]


def _returned(answer: JsonObject) -> Returned:
    try:
        checked = _Answer.model_validate(answer)
    except ValidationError as error:
        return Returned(problem=f"the verifier's process answered what is not an answer: {error.error_count()} errors")
    log = whole_text(checked.log[:_MAX_LOG])
    if checked.status == "error":
        reason = whole_text(checked.error or "the verifier failed and gave no reason")
        return Returned(problem=reason[:_MAX_REASON], log=log)
    return Returned(checked.value, log)


def _verdict(verifier: Verifier, returned: Returned) -> Verdict:
    value, log = returned.value, returned.log
    if not isinstance(value, dict):
        return uncertain(
            verifier.mode, verifier.digest, f"the verifier returned {type(value).__name__}; a dict is needed", log=log
        )
    word = value.get("result")
    if not isinstance(word, str) or not word or len(word) > _MAX_RESULT_WORD or json_problem(word):
        return uncertain(
            verifier.mode, verifier.digest, "the verifier's dict has no 'result' that is a short string", log=log
        )
    if problem := json_problem(value):
        return uncertain(verifier.mode, verifier.digest, f"the verifier's value is no JSON: {problem}", log=log)
    return Verdict(
        mode=verifier.mode,
        reward_type="complete" if word == "complete" else "incomplete",
        status=Certainty.CERTAIN,
        result=word,
        value=value,
        log=log,
        digest=verifier.digest,
    )
