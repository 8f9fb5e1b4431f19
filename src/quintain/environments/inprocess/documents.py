"""Bounds of a document as a whole, before it is read as any kind's."""

import json
from typing import Any, Final

from quintain.contracts.untrusted import json_problem
from quintain.environments.inprocess.schemas import depth_problem

MAX_DOCUMENT: Final = 2 * 2**20
"""Largest document, in characters of JSON."""


def document_problem(document: Any) -> str | None:
    """Why an environment's document cannot be read, or None."""
    if not isinstance(document, dict):
        return "the document is no map; write the environment's keys"
    if problem := _keys(document) or json_problem(document) or depth_problem(document):
        return problem
    size = len(json.dumps(document))
    return None if size <= MAX_DOCUMENT else f"the document has {size} characters, over {MAX_DOCUMENT}; shorten it"


def _keys(document: Any) -> str | None:
    """Keys that are no text: YAML allows numbers, dates and lists for keys, JSON does not."""
    pending = [(document, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > 64:
            return None  # json_problem says so
        if isinstance(item, dict):
            for key, value in item.items():
                if not isinstance(key, str):
                    return f"the key {str(key)[:80]!r} is no text; write it in quotes"
                pending.append((value, depth + 1))
        elif isinstance(item, list):
            pending.extend((one, depth + 1) for one in item)
        elif item is not None and not isinstance(item, str | int | float):
            return f"{str(item)[:80]!r} is no text, number, list or map; write it in quotes"
    return None
