"""Verifiers. Each names what it wants: the states before and after, the answer, the trace, what was drawn.

They run in a sandbox of their own, with the standard library and nothing else.
"""

import re


def facts(state):
    """What the environment declares; the rest counts calls."""
    return {name: value for name, value in state.items() if name != "_episode"}


def verify_lent(initial_state, final_state, variables):
    """The one loan was added, and nothing else has changed."""
    before = facts(initial_state)
    wanted = {**before, "copies": before["copies"] - 1, "loans": [*before["loans"], variables["reader"]]}
    return {"result": "complete" if facts(final_state) == wanted else "incomplete"}


def verify_counted(initial_state, final_state, final_answer, variables):
    """The number is in the answer, whatever words are around it, and nothing has changed."""
    same = facts(initial_state) == facts(final_state)
    told = re.findall(r"\d+", final_answer or "")
    return {"result": "complete" if same and told == [str(variables["copies"])] else "incomplete"}
