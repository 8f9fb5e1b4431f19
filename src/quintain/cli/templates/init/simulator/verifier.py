"""Verifiers. Each names what it wants: the states before and after, the answer, the trace, what was drawn.

They run in a sandbox of their own, with the standard library and nothing else.
"""


def facts(state):
    """The variables; the rest is where the simulator is, and counts calls."""
    return {name: value for name, value in state.items() if name != "_episode"}


def served(initial_state, final_state, **changed):
    """These variables have changed, nothing else has, and the reader was sent off."""
    same = facts(final_state) == {**facts(initial_state), **changed}
    return {"result": "complete" if same and final_state["_episode"]["at"] == "gone" else "incomplete"}


def verify_lent(initial_state, final_state, variables):
    """The book was lent to the reader."""
    return served(initial_state, final_state, copies=variables["copies"] - 1, lent=[variables["reader"]])


def verify_reserved(initial_state, final_state, variables):
    """The book was reserved for the reader."""
    return served(initial_state, final_state, reserved=[variables["reader"]])
