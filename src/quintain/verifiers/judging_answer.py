"""Finding the one judgment in what a model wrote."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from quintain.contracts.untrusted import whole_text
from quintain.verifiers.judging import Classification, JsonObject, Judgment

MAX_TEXT_CHARS: Final = 256 * 1024
MAX_REASONS: Final = 8
MAX_REASON_CHARS: Final = 400

_MAX_BRACES = 2000
_THOUGHT_ENDS = "</think>"


class _NotAnObject(ValueError):
    """What stands at a brace is no object that could be a judgment."""


def read_judgment(
    text: str, case: str, choices: Sequence[Classification], clean: Callable[[str], str] = whole_text
) -> Judgment | str:
    """The judgment in a model's text, or what is wrong with the text, told without a word of it.

    The answer may stand bare, in a code fence or among prose. An object that names another case is something the model
    quoted. Where objects name this case only they count; where none names a case, all of them do. Those that count
    must agree.

    Args:
        case: the code word that the model was given.
        choices: what it may answer.
        clean: what every reason passes through before it is cut to size.
    """
    if len(text) > MAX_TEXT_CHARS:
        return f"its answer has {len(text)} characters, over {MAX_TEXT_CHARS}"
    found = list(_objects(text.rpartition(_THOUGHT_ENDS)[2]))
    counting = [one for one in found if one.get("case") == case] or [one for one in found if "case" not in one]
    if not counting:
        return "its answer holds no JSON object with a classification of this case"
    read = [_judgment(one, choices, clean) for one in counting]
    for one in read:
        if isinstance(one, str):
            return one
    judgments = [one for one in read if isinstance(one, Judgment)]
    if len({one.classification for one in judgments}) > 1:
        words = ", ".join(sorted({one.classification.value for one in judgments}))
        return f"its answer contradicts itself: {words}"
    return judgments[-1]


def _judgment(found: JsonObject, choices: Sequence[Classification], clean: Callable[[str], str]) -> Judgment | str:
    word = found["classification"]
    word = word.strip().lower() if isinstance(word, str) else word
    if word not in [choice.value for choice in choices]:
        return f"its classification is not one of {', '.join(choices)}"
    confidence = found.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return "its confidence is not a number from 0 to 1"
    reasons = found.get("reasons", [])
    listed = [reasons] if isinstance(reasons, str) else reasons if isinstance(reasons, list) else []
    kept = tuple(clean(one)[:MAX_REASON_CHARS] for one in listed if isinstance(one, str) and one.strip())
    return Judgment(classification=Classification(word), confidence=float(confidence), reasons=kept[:MAX_REASONS])


def _objects(text: str) -> Iterator[JsonObject]:
    """The JSON objects with a classification that stand in a text, the outermost such."""
    decoder = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_refused)
    place, tried = text.find("{"), 0
    while place >= 0 and tried < _MAX_BRACES:
        tried += 1
        end = place + 1
        try:
            value, after = decoder.raw_decode(text, place)
            if "classification" in value:
                yield value
                end = after
        except (ValueError, RecursionError):  # a brace of the prose
            pass
        place = text.find("{", end)


def _once_each(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _NotAnObject("a key stands twice")
    return value


def _refused(constant: str) -> Any:
    raise _NotAnObject(f"{constant} is not JSON")
