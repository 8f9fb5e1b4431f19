"""What must be true when a call at the telephone desk is over."""


def verdict(right):
    return {"result": "complete" if right else "others"}


def facts(state):
    return {name: value for name, value in state.items() if name != "_episode"}


def over(state):
    return state["_episode"]["at"] == "closed"


def settled(state, account, outcome, given_back=(), handed_on=(), blocked=()):
    """The facts with these things done for an account."""
    return {
        **facts(state),
        "verified_as": account,
        "outcome": outcome,
        "credits": sorted(given_back, key=repr),
        "handed_on": list(handed_on),
        "blocked": list(blocked),
    }


def in_order(state):
    return {**facts(state), "credits": sorted(state["credits"], key=repr)}


def credit(charge, cents):
    return {"cents": cents, "charge": charge}


def verify_blocked(initial_state, final_state, variables):
    account = variables["account"]
    blocked = [{"account": account, "prefix": variables["prefix"]}]
    wanted = settled(initial_state, account, "solved", blocked=blocked)
    return verdict(over(final_state) and in_order(final_state) == wanted)


def verify_one_credit(initial_state, final_state, variables):
    given_back = [credit(variables["charges"][4], variables["cents"])]
    wanted = settled(initial_state, variables["account"], "solved", given_back)
    return verdict(over(final_state) and in_order(final_state) == wanted)


def verify_double_bills(initial_state, final_state, variables):
    """Worked out anew from the charges: of two that are alike the later is credited, or handed on if it is large."""
    given_back, handed_on, charges = [], [], initial_state["charges"]
    for one in charges:
        alike = [
            other["charge"]
            for other in charges
            if all(other[name] == one[name] for name in ("month", "what", "cents", "account"))
        ]
        if len(alike) == 2 and one["charge"] == max(alike):
            if one["cents"] > variables["most"]:
                handed_on.append(one["charge"])
            else:
                given_back.append(credit(one["charge"], one["cents"]))
    wanted = settled(initial_state, variables["account"], "handed_on", given_back, handed_on)
    return verdict(over(final_state) and in_order(final_state) == wanted)
