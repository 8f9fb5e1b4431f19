"""Scoring an episode's final state, apart from the episode and out of the agent's reach."""

from quintain.verifiers.base import About, Certainty, Verdict, VerdictMode, VerifierRunner, uncertain
from quintain.verifiers.code import CodeVerifier
from quintain.verifiers.judge import Judge
from quintain.verifiers.judged import JudgedVerifier
from quintain.verifiers.judging import JudgeSettings
from quintain.verifiers.judging_cache import JudgmentCache

__all__ = [
    "About",
    "Certainty",
    "CodeVerifier",
    "Judge",
    "JudgeSettings",
    "JudgedVerifier",
    "JudgmentCache",
    "Verdict",
    "VerdictMode",
    "VerifierRunner",
    "uncertain",
]
