"""What must be true when a case at the desk for rail bookings is closed."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def facts(state):
    """What is booked: a quote is gone when the case is closed."""
    return {name: value for name, value in state.items() if name not in ("_episode", "quote")}


def over(state):
    return state["_episode"]["at"] == "closed"


def changed(state, changes, outcome="changed"):
    """The facts with bookings brought to other trains: by reference, the train and the fee."""
    wanted = facts(state)
    trains = {train["train"]: train for train in wanted["trains"]}
    for booking in wanted["bookings"]:
        if booking["ref"] in changes:
            train, fee = changes[booking["ref"]]
            booking["train"], booking["date"] = train, trains[train]["date"]
            booking["cents"] += fee
    wanted["changes"] = sorted(
        ({"fee": fee, "ref": ref, "train": train} for ref, (train, fee) in changes.items()), key=repr
    )
    wanted["outcome"] = outcome
    return wanted


def same(final_state, wanted):
    found = facts(final_state)
    return over(final_state) and {**found, "changes": sorted(found["changes"], key=repr)} == wanted


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text or "")
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text)}


def tells(answer, right, asked):
    """Whether an answer tells one of these numbers and no other, but for those of the question."""
    found = numbers(answer) - (numbers(asked) - right)
    return bool(found) and found <= right


def verify_changed_as_quoted(initial_state, final_state, final_answer, variables):
    quote = initial_state["quote"]
    told = tells(final_answer, {quote["fee"], quote["fee"] / 100}, variables["asked"])
    wanted = changed(initial_state, {quote["ref"]: (quote["train"], quote["fee"])})
    return verdict(told and same(final_state, wanted))


def verify_one_change(initial_state, final_state, variables):
    fee = variables["surcharge"] + variables["more"]
    return verdict(same(final_state, changed(initial_state, {variables["refs"][0]: (variables["trains"][3], fee)})))


def verify_left_alone(initial_state, final_state, final_answer, variables):
    fee = variables["surcharge"] + min(variables["prices"])
    told = tells(final_answer, {fee, fee / 100}, variables["asked"])
    return verdict(told and same(final_state, changed(initial_state, {}, "unchanged")))


def verify_two_changes(initial_state, final_state, variables):
    refs, fee = variables["refs"], variables["surcharge"] + variables["fair"]
    wanted = {refs[0]: (variables["out"][2], fee), refs[1]: (variables["back"][1], 0)}
    return verdict(same(final_state, changed(initial_state, wanted)))
