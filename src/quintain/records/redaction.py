"""Redaction: what is secret goes out of a record before the record leaves its worker, and is counted.

Only texts within fields that an agent, an environment, a verifier or a user filled are looked at. What a record is
identified and grouped by (ids, digests, names of scenario and model, stages, numbers) stays as it is. A secret becomes
`[redacted:KIND]`, or 0 where it may be a number of JSON; nothing in that has to be escaped, so JSON within a text stays
JSON. It is deterministic: whoever compares a replay with a record redacts the replay first.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from quintain.contracts.terminal import MAX_MESSAGE_CHARS
from quintain.records.secrets import Finder, Span, personal, random_strings, shapes, spellings

JsonObject = dict[str, Any]

MIN_CREDENTIAL_CHARS: Final = 6
"""Shorter credentials are not looked for: they would be found everywhere."""

_KEPT: Final = frozenset(
    {
        "schema_version", "environment_class_id", "episode_id", "scenario", "task_idx", "task_payload_digest",
        "dataset_digest", "verifier_digest", "task_policy_digest", "seed", "attempt", "model_digest",
        "failure_owner", "reward", "reward_type", "reward_valid", "reward_contract_digest", "reward_terms", "signals",
        "verify_policy", "start_kind", "stages", "segments_ms", "versions", "index", "action", "omitted", "started",
        "duration_ms", "truncated", "rollout_plan", "rollout_item", "states",
    }
)  # fmt: skip


_OF_PROMPT: Final = ("prompt_token_ids",)
_OF_REPLY: Final = ("token_ids", "tokens", "logprobs")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEFORE_VALUE: Final = frozenset(("", ":", ",", "[", " ", "\t", "\n", "\r"))
_BEHIND_VALUE: Final = frozenset(("", ",", "]", "}", " ", "\t", "\n", "\r"))


class Redactor:
    """Takes secrets out of records. It holds the run's own credentials; do not print it."""

    def __init__(self, credentials: Collection[str] = (), *, entropy: bool = True, personal_data: bool = False) -> None:
        """`credentials` are the run's own keys and tokens, found by value in whatever spelling is cheap to look for."""
        known = {
            spelling for value in credentials if len(value) >= MIN_CREDENTIAL_CHARS for spelling in spellings(value)
        }
        longest_first = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(_pattern, longest_first))) if known else None
        self._finders: tuple[Finder, ...] = (
            shapes,
            *((random_strings,) if entropy else ()),
            *((personal,) if personal_data else ()),
        )

    def redact(self, document: Mapping[str, Any]) -> tuple[JsonObject, dict[str, int]]:
        """A record's JSON object without secrets, and how many of each kind were in it."""
        counts: Counter[str] = Counter()
        redacted: JsonObject = {}
        for name, value in document.items():
            if name == "steps":
                redacted[name] = [self._fields(step, counts) for step in value]
            elif name == "turns" and value is not None:
                redacted[name] = self._turns(value, counts)
            elif name in ("failure", "retried") and value is not None:
                failures = value if isinstance(value, list) else [value]
                made = [{**one, "message": self._text(one["message"], counts)[:MAX_MESSAGE_CHARS]} for one in failures]
                redacted[name] = made if isinstance(value, list) else made[0]
            else:
                redacted[name] = value if name in _KEPT else self._value(value, counts)
        return redacted, dict(sorted(counts.items()))

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self._text(text, Counter())

    def _fields(self, part: JsonObject, counts: Counter[str]) -> JsonObject:
        return {name: value if name in _KEPT else self._value(value, counts) for name, value in part.items()}

    def _turns(self, turns: list[JsonObject], counts: Counter[str]) -> list[JsonObject]:
        """An agent's turns. Tokens spell their text once more, so those of a text with a secret go as a whole."""
        redacted, secret_before = [], False
        for turn in turns:
            trace = turn.get("tokens") or {}
            found: Counter[str] = Counter()
            sent = self._value(turn.get("messages"), found)
            secret_before = secret_before or bool(found)
            rest = {name: value for name, value in turn.items() if name not in ("messages", "tokens")}
            replied: Counter[str] = Counter()
            made = self._fields(rest, replied)
            self._text("".join(trace.get("tokens") or ()), replied if not replied else Counter())
            kept = dict(trace)
            gone = [name for name in _OF_PROMPT if secret_before] + [name for name in _OF_REPLY if replied]
            for name in gone:
                if kept.get(name) is not None:
                    kept[name] = None
                    counts["token_trace"] += 1
            counts.update(found + replied)
            secret_before = secret_before or bool(replied)
            redacted.append({**made, "messages": sent, **({"tokens": kept} if "tokens" in turn else {})})
        return redacted

    def _value(self, value: Any, counts: Counter[str]) -> Any:
        if isinstance(value, str):
            return self._text(value, counts)
        if isinstance(value, list):
            return [self._value(item, counts) for item in value]
        if isinstance(value, dict):
            made: JsonObject = {}
            for key, item in value.items():
                name = self._text(key, counts)
                while name in made:  # two secrets that were keys
                    name += "'"
                made[name] = self._value(item, counts)
            return made
        return value

    def _text(self, text: str, counts: Counter[str]) -> str:
        if self._known is not None:
            spans = [(*match.span(), "credential") for match in self._known.finditer(text)]
            text = _replaced(text, spans, counts)
        if len(text) < 7:
            return text
        for finder in self._finders:
            text = _replaced(text, sorted(finder(text)), counts)
        return text


def _replaced(text: str, spans: list[Span], counts: Counter[str]) -> str:
    if not spans:
        return text
    parts, done = [], 0
    for begin, end, kind in spans:
        if begin < done or text.startswith("[redacted:", begin):
            continue
        parts += [text[done:begin], _marker(text, begin, end, kind)]
        counts[kind] += 1
        done = end
    return "".join([*parts, text[done:]])


def _marker(text: str, begin: int, end: int, kind: str) -> str:
    """What stands in a secret's place: where it may be a number of JSON, another number."""
    alone = text[begin - 1 : begin] in _BEFORE_VALUE and text[end : end + 1] in _BEHIND_VALUE
    return "0" if alone and _NUMBER.fullmatch(text, begin, end) else f"[redacted:{kind}]"


def _pattern(spelling: str) -> str:
    # digits within a longer number are not the credential, and a number with a hole is no JSON
    return rf"(?<![\d.]){spelling}(?![\d.])" if spelling.isdecimal() else re.escape(spelling)
