"""What must be true of the house in the end, and what guests must have been told."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def numbers(text):
    """The whole numbers of a text; parts of dates, of booking numbers and of fractions are none."""
    return {int(one) for one in re.findall(r"(?<![\w.:-])\d+(?![\w:-]|\.\d)", (text or "").replace(".00", ""))}


def entry(room, day, slot, who, people):
    return {"room": room, "day": day, "slot": slot, "who": who, "people": people}


def booked(initial, final, new, changed=None, cancelled=(), refunds=()):
    """Whether these bookings were made, changed and cancelled, and nothing else; new ones may have any number."""
    kept = {name: one for name, one in initial["bookings"].items() if name not in cancelled} | (changed or {})
    found = dict(final["bookings"])
    same = all(found.pop(name, None) == one for name, one in kept.items())
    key = lambda one: sorted(one.items(), key=str)  # noqa: E731
    return same and sorted(found.values(), key=key) == sorted(new, key=key) and final["refunds"] == list(refunds)


def verify_booked(initial_state, final_state, variables):
    v = variables
    return verdict(booked(initial_state, final_state, [entry(v["room"], v["day"], v["slot"], v["who"], v["people"])]))


def verify_cheapest(initial_state, final_state, final_answer, variables):
    named = [room for room in ("Alcove", "Cellar", "Gallery", "Great room") if room in (final_answer or "")]
    right = named == ["Gallery"] and variables["rate"] in numbers(final_answer)
    others = {variables["rate"] - 30, variables["rate"] + 95} & numbers(final_answer)
    return verdict(right and not others and booked(initial_state, final_state, []))


def answers(final):
    """What was said in each turn."""
    return [turn["answer"] or "" for turn in final["turns"]]


def verify_more_guests(initial_state, final_state, variables):
    """One booking, grown with the number of guests, and its price told at the end."""
    v = variables
    said = answers(final_state)
    right = len(said) == 3 and v["rate"] in numbers(said[2])
    return verdict(
        right and booked(initial_state, final_state, [entry("Gallery", v["day"], v["slot"], v["who"], v["more"])])
    )


def verify_half_back(initial_state, final_state, variables):
    v = variables
    back = [{"booking": "B105", "euros": v["back"]}] if v["back"] else []
    said = answers(final_state)
    right = len(said) == 3 and v["back"] in numbers(said[1]) and said[2] != ""
    return verdict(right and booked(initial_state, final_state, [], cancelled=["B105"], refunds=back))


def verify_series(initial_state, final_state, variables):
    """Each date in the smallest room that is free; the guest knows what all of them cost."""
    v = variables
    new = [entry(room, day, "evening", v["who"], v["people"]) for room, day in zip(v["rooms"], v["days"], strict=True)]
    said = answers(final_state)
    told = len(said) == 2 and v["total"] in numbers(said[1]) and len(numbers(said[1])) <= 8
    return verdict(told and booked(initial_state, final_state, new))
