"""Verifiers. Each names what it wants: the states before and after, the answer, the trace, what was drawn.

They run in a sandbox of their own, with the standard library and nothing else.
"""

import json
import re


def verify_lent(initial_state, final_state, variables):
    """The one loan was added, and nothing else has changed."""
    title, before = variables["title"], books(initial_state)
    wanted = {
        "copies": {**before["copies"], title: before["copies"][title] - 1},
        "loans": [*before["loans"], [title, variables["reader"]]],
    }
    return {"result": "complete" if books(final_state) == wanted else "incomplete"}


def verify_counted(initial_state, final_state, final_answer, variables):
    """The number is in the answer, whatever words are around it, and nothing has changed."""
    told = re.findall(r"\d+", final_answer or "")
    right = initial_state == final_state and told == [str(variables["copies"])]
    return {"result": "complete" if right else "incomplete"}


def books(state):
    """The file as it is in a state; an agent can have written anything."""
    try:
        return json.loads(state["files"]["books.json"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
