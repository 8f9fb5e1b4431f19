"""What must be true when a task of the refund desk is done."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def facts(state):
    return {name: value for name, value in state.items() if name != "_episode"}


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text or "")
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text)}


def tells(answer, right, asked):
    """Whether an answer tells one of these numbers and no other, but for those of the question."""
    found = numbers(answer) - (numbers(asked) - right)
    return bool(found) and found <= right


def same_refunds(state, wanted):
    return sorted(map(repr, state["refunds"])) == sorted(map(repr, wanted))


def refund(order, cents, reason, via):
    return {"cents": cents, "order": order, "reason": reason, "via": via}


def verify_cancelled(initial_state, final_state, variables):
    wanted = facts(initial_state)
    for order in wanted["orders"]:
        if order["id"] == variables["ids"][0]:
            order["status"] = "cancelled"
    return verdict(facts(final_state) == wanted)


def verify_one_refund(initial_state, final_state, variables):
    wanted = facts(initial_state)
    wanted["refunds"] = [refund(variables["ids"][0], variables["cents"], "damaged", "card")]
    return verdict(facts(final_state) == wanted)


def verify_late(initial_state, final_state, final_answer, variables):
    wanted, cents = facts(initial_state), variables["cents"]
    wanted["refunds"] = [refund(variables["ids"][0], cents, "late", "bank")]
    told = tells(final_answer, {cents, cents / 100}, variables["asked"])
    return verdict(told and facts(final_state) == wanted)


def verify_charged_twice(initial_state, final_state, final_answer, variables):
    ids, sums = variables["ids"], variables["sums"]
    wanted = facts(initial_state)
    wanted["reported"] = [ids[2]]
    paid = [
        refund(ids[0], sums[0] + 1000, "duplicate", "card"),
        refund(ids[1], sums[1] + 1000, "duplicate", "bank"),
        refund(ids[5], sums[5] + variables["fee"], "duplicate", "card"),
    ]
    final = facts(final_state)
    right = {**final, "refunds": []} == wanted and same_refunds(final, paid)
    total = sum(one["cents"] for one in paid)
    return verdict(right and tells(final_answer, {total, total / 100}, variables["asked"]))
