"""Verification in every mode: code alone, a judge over sql evidence, or both.

What the sql function returns never leaves the platform but for the judge's endpoint; a verdict keeps it as `evidence`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quintain.contracts.identity import digest_of
from quintain.contracts.untrusted import json_problem
from quintain.errors import Owner, UnknownTaskError
from quintain.sandboxes.base import StateFile
from quintain.tasks.base import Verifier, VerifierMode, verifier_bundle
from quintain.verifiers.base import About, Certainty, JsonObject, Verdict, VerdictMode
from quintain.verifiers.code import CodeVerifier
from quintain.verifiers.judge import Judge
from quintain.verifiers.judging import Case, Classification, JudgeSettings, Judgment, NoJudgment
from quintain.verifiers.judging_prompt import prompt_digest, trace_summary

_MAX_REASON: Final = 2000
_UNSET: Final = JudgeSettings()

Verifiers = Mapping[VerifierMode, Verifier]


@dataclass(frozen=True)
class _Submission:
    """What is verified: the two states, the answer, and what a judge needs beside them."""

    initial: Sequence[StateFile]
    final: Sequence[StateFile]
    final_answer: str | None
    about: About


class JudgedVerifier:
    """Verifies in any mode: code verifiers by themselves, sql ones with a judge, hybrid with both."""

    def __init__(self, code: CodeVerifier, judge: Judge, settings: JudgeSettings | None = None) -> None:
        """`settings` hold where an episode does not bring its own."""
        self.code = code
        """Runs the verifiers' code."""
        self._judge = judge
        self._settings = settings or _UNSET

    async def score(
        self,
        mode: VerdictMode,
        verifiers: Verifiers,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        final_answer: str | None,
        about: About | None = None,
    ) -> Verdict:
        """The verdict of a task's verifiers in one mode; what fails gives an uncertain one.

        Hybrid is certain only where code and judge are both certain and agree whether the task is done; how it failed
        is the judge's word. Where the task has a verifier of one mode alone, that one decides.

        Raises:
            UnknownTaskError: the task has no verifier for the mode.
        """
        used = verifiers_of(mode, verifiers)
        digest = self.digest(mode, verifiers, about)
        submission = _Submission(initial, final, final_answer, about or About())
        if "sql" not in used:
            verdict = await self.code.verify(used["code"], initial, final, final_answer, about)
        elif "code" not in used:
            verdict = await self._judged(used["sql"], submission)
        else:
            verdict = await self._both(used, submission)
        return verdict.model_copy(update={"mode": mode, "digest": digest})

    def digest(self, mode: VerdictMode, verifiers: Verifiers, about: About | None = None) -> str:
        """The verifier digest of a mode: the verifiers it uses and, where there is a judge, its model and prompt.

        Raises:
            UnknownTaskError: the task has no verifier for the mode.
        """
        return verdict_digest(mode, verifiers, self._settings_for(about))

    def _settings_for(self, about: About | None) -> JudgeSettings:
        return about.judge if about is not None and about.judge is not None else self._settings

    async def _both(self, used: Verifiers, submission: _Submission) -> Verdict:
        settings = self._settings_for(submission.about)
        if settings.missing is not None:
            return _failed(used["sql"], settings.missing)
        code = await self.code.verify(
            used["code"], submission.initial, submission.final, submission.final_answer, submission.about
        )
        if not code.certain:  # whatever the judge says, this will not be used
            return code.model_copy(update={"reason": f"the code: {code.reason}"})
        return agreed(code, await self._judged(used["sql"], submission))

    async def _judged(self, verifier: Verifier, submission: _Submission) -> Verdict:
        about = submission.about
        settings = self._settings_for(about)
        if settings.missing is not None:
            return _failed(verifier, settings.missing)
        # sql functions take the two databases; the answer is for the judge to read
        returned = await self.code.run(verifier, submission.initial, submission.final, None, changes=about.changes)
        problem = returned.problem or _evidence_problem(returned.value, settings.max_evidence_bytes)
        if problem is not None:
            return _failed(verifier, problem, owner=returned.owner, log=returned.log)
        case = Case(
            task=about.task,
            evidence=returned.value,
            success_criteria=verifier.success_criteria,
            failure_criteria=verifier.failure_criteria,
            author_note=verifier.reasoning,
            final_answer=submission.final_answer,
            trace=None if about.steps is None else trace_summary(about.steps),
        )
        judgment = await self._judge.judge(settings, case)
        if isinstance(judgment, NoJudgment):
            return _failed(verifier, judgment.reason, owner=judgment.owner, log=returned.log, evidence=case.evidence)
        verdict = _verdict(verifier, settings, judgment, returned.log, case.evidence)
        return verdict.model_copy(update={"changes": returned.changes})


def verifiers_of(mode: VerdictMode, verifiers: Verifiers) -> Verifiers:
    """Those of a task's verifiers that a mode uses.

    Raises:
        UnknownTaskError: the task has none for it.
    """
    wanted: tuple[VerifierMode, ...] = ("code", "sql") if mode == "hybrid" else (mode,)
    used = {one: verifiers[one] for one in wanted if one in verifiers}
    if not used:
        raise UnknownTaskError(f"the task has no {' or '.join(wanted)} verifier")
    return used


def verdict_digest(mode: VerdictMode, verifiers: Verifiers, settings: JudgeSettings | None) -> str:
    """The verifier digest of a verdict: what could have changed it. The endpoint's address is not in it.

    A verdict of code alone has the digest of that verifier.

    Raises:
        UnknownTaskError: the task has no verifier for the mode.
    """
    used = verifiers_of(mode, verifiers)
    if "sql" not in used:
        return used["code"].digest
    model = settings.model if settings is not None and settings.missing is None else None
    judge = None if model is None else {"model": model, "prompt": prompt_digest()}
    return digest_of({"verifiers": verifier_bundle(used.values()), "mode": mode, "judge": judge})


def agreed(code: Verdict, judged: Verdict) -> Verdict:
    """The hybrid verdict of two; `code` must be certain."""
    said = {"code": code.value, "judge": judged.value}
    if not judged.certain:
        return judged.model_copy(update={"value": said, "reason": f"the code says {code.result}; {judged.reason}"})
    if (code.reward_type == "complete") == (judged.reward_type == "complete"):
        value = {"result": judged.result, **said}
        return judged.model_copy(update={"value": value, "log": _joined(code.log, judged.log)})
    reasons = "; ".join(judged.value["reasons"]) or "no reasons"
    reason = f"code and judge disagree: the code says {code.result}, the judge {judged.result} ({reasons})"
    return judged.model_copy(
        update={
            "reward_type": "judge_error",
            "status": Certainty.UNCERTAIN,
            "result": None,
            "value": said,
            "reason": reason[:_MAX_REASON],
            "failure_owner": Owner.VERIFIER,
            "log": _joined(code.log, judged.log),
        }
    )


def _verdict(verifier: Verifier, settings: JudgeSettings, judgment: Judgment, log: str, evidence: object) -> Verdict:
    word = judgment.classification.value
    value: JsonObject = {
        "result": word,
        "confidence": judgment.confidence,
        "reasons": list(judgment.reasons),
        "judge": {"model": settings.model, "served_model": judgment.served_model},
    }
    blamed = judgment.classification is Classification.SERVER_ERROR
    reasons = "; ".join(judgment.reasons) or "no reasons"
    return Verdict(
        mode=verifier.mode,
        reward_type=word,
        status=Certainty.UNCERTAIN if blamed else Certainty.CERTAIN,
        result=None if blamed else word,
        value=value,
        evidence=evidence,
        log=log,
        reason=f"the judge says that the environment failed: {reasons}"[:_MAX_REASON] if blamed else None,
        failure_owner=Owner.ENVIRONMENT if blamed else None,
        digest=verifier.digest,
    )


def _failed(
    verifier: Verifier, reason: str, *, owner: Owner = Owner.VERIFIER, log: str = "", evidence: object = None
) -> Verdict:
    return Verdict(
        mode=verifier.mode,
        reward_type="judge_error",
        status=Certainty.UNCERTAIN,
        evidence=evidence,
        log=log,
        reason=reason[:_MAX_REASON],
        failure_owner=owner,
        digest=verifier.digest,
    )


def _evidence_problem(evidence: object, limit: int) -> str | None:
    """Why an sql function's value is no evidence, or None. AWM's functions report their own failure in a dict."""
    if problem := json_problem(evidence):
        return f"the sql function's value is no evidence: {problem}"
    if isinstance(evidence, dict) and evidence.get("execution_status") == "error":
        return f"the sql function reports an error: {str(evidence.get('error_message'))[:300]}"
    size = len(json.dumps(evidence))
    return f"the evidence is {size} bytes of JSON, over {limit} that a judge is shown" if size > limit else None


def _joined(*logs: str) -> str:
    return "\n".join(log for log in logs if log)
