"""What must be true of the house in the end, and what guests must have been told."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text or "")
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text)}


def tells(answer, right, asked):
    """Whether an answer tells one of these numbers and no other, but for those of the question."""
    found = numbers(answer) - (numbers(asked) - right)
    return bool(found) and found <= right


def rooms(text):
    """The rooms that a text names."""
    return {room for room in ("Alcove", "Cellar", "Gallery", "Great room") if room.lower() in (text or "").lower()}


def entry(room, day, slot, who, people):
    return {"room": room, "day": day, "slot": slot, "who": who, "people": people}


def booked(initial, final, new, changed=None, cancelled=(), refunds=()):
    """Whether these bookings were made, changed and cancelled, and nothing else; new ones may have any number."""
    kept = {name: one for name, one in initial["bookings"].items() if name not in cancelled} | (changed or {})
    found = dict(final["bookings"])
    same = all(found.pop(name, None) == one for name, one in kept.items())
    key = lambda one: repr(sorted(one.items()))  # noqa: E731
    return same and sorted(found.values(), key=key) == sorted(new, key=key) and final["refunds"] == list(refunds)


def verify_booked(initial_state, final_state, variables):
    v = variables
    return verdict(booked(initial_state, final_state, [entry(v["room"], v["day"], v["slot"], v["who"], v["people"])]))


def verify_cheapest(initial_state, final_state, final_answer, variables):
    told = tells(final_answer, {variables["rate"]}, variables["asked"])
    return verdict(rooms(final_answer) == {variables["room"]} and told and booked(initial_state, final_state, []))


def answers(final):
    """What was said in each turn."""
    return [turn["answer"] or "" for turn in final["turns"]]


def verify_more_guests(initial_state, final_state, variables):
    """One booking, grown with the number of guests; the room is told each time, and the price at the end."""
    v = variables
    said = answers(final_state)
    right = len(said) == 3 and (rooms(said[0]), rooms(said[1])) == ({"Cellar"}, {"Gallery"})
    right = right and tells(said[2], {v["rate"]}, v["asked"] + v["grown"])
    return verdict(
        right and booked(initial_state, final_state, [entry("Gallery", v["day"], v["slot"], v["who"], v["more"])])
    )


def refuses(text):
    """Whether somebody says no, in any of the words for it."""
    text = text.lower().replace("\u2019", "'")
    words = "no|not|cannot|never|nothing|unable|impossible|sorry|afraid|unfortunately|only|refuse|decline|against"
    return re.search(rf"\b({words})\b|n't\b", text) is not None


def verify_half_back(initial_state, final_state, final_answer, variables):
    v = variables
    back = [{"booking": "B105", "euros": v["back"]}] if v["back"] else []
    said = answers(final_state)
    right = len(said) == 3 and tells(said[1], {v["back"]}, v["asked"]) and refuses(said[2] or final_answer or "")
    return verdict(right and booked(initial_state, final_state, [], cancelled=["B105"], refunds=back))


def verify_series(initial_state, final_state, variables):
    """Each date in the smallest room that is free, in order; the guest knows them, and what all of them cost."""
    v = variables
    new = [entry(room, day, "evening", v["who"], v["people"]) for room, day in zip(v["rooms"], v["days"], strict=True)]
    said = answers(final_state)
    told = len(said) == 2 and rooms(said[0]) == set(v["rooms"]) and tells(said[1], {v["total"]}, v["asked"])
    mine = [one["day"] for one in final_state["bookings"].values() if one["who"] == v["who"]]
    return verdict(told and mine == v["days"] and booked(initial_state, final_state, new))
