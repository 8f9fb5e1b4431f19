"""What must be true when a request at the access desk is closed."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def facts(state):
    """Who may use what, and who approved it; what was asked for is gone when the request is closed."""
    return {name: value for name, value in state.items() if name not in ("_episode", "approvals", "pending")}


def settled(initial_state, final_state, outcome, grants):
    """Whether the request is closed so, with these grants and with nothing else changed."""
    wanted = {**facts(initial_state), "outcome": outcome, "grants": sorted(grants, key=repr)}
    found = facts(final_state)
    found = {**found, "grants": sorted(found["grants"], key=repr)}
    return final_state["_episode"]["at"] == "closed" and found == wanted


def grant(person, system, level, days, approver):
    """A grant that one person had approved before it was made."""
    return {"approved_by": [approver], "days": days, "level": level, "person": person, "system": system}


def verify_revoked(initial_state, final_state, variables):
    person, system = variables["ids"][1], variables["system"]
    grants = [one for one in initial_state["grants"] if (one["person"], one["system"]) != (person, system)]
    return verdict(settled(initial_state, final_state, "revoked", grants))


def verify_granted(initial_state, final_state, variables):
    ids, system, level = variables["ids"], variables["system"], variables["level"]
    grants = [grant(ids[0], system, level, min(variables["days"], 7), ids[2])]
    return verdict(settled(initial_state, final_state, "granted", grants))


def verify_refused(initial_state, final_state, final_answer, variables):
    """Nothing was granted, and it is told in whose name it was asked for."""
    named = set(re.findall(r"P-\d+", final_answer or ""))
    return verdict(settled(initial_state, final_state, "refused", []) and named == {variables["ids"][0]})


def verify_new_team(initial_state, final_state, variables):
    ids, systems = variables["ids"], variables["systems"]
    kept = [one for one in initial_state["grants"] if one["person"] != ids[0] or one["system"] == systems[2]]
    days = min(variables["days"], variables["most"])
    grants = [*kept, grant(ids[0], systems[0], "write", days, ids[3])]
    return verdict(settled(initial_state, final_state, "granted", grants))
