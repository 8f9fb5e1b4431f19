"""What must be true when a task of the sample freezer is done."""

import re

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def verdict(right):
    return {"result": "complete" if right else "others"}


def facts(state):
    return {name: value for name, value in state.items() if name != "_episode"}


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text or "")
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text)}


def tells(answer, right, asked):
    """Whether an answer tells one of these numbers and no other, but for those of the question and for barcodes.

    It is in figures or, where there are none, in words up to twelve; `none` and `no` are zero.
    """
    words = re.findall(r"[a-z]+", (answer or "").lower())
    figures = {one for one in numbers(answer) if not 10_000 <= one < 100_000} - (numbers(asked) - right)
    found = figures or {WORDS.index(word) for word in words if word in WORDS}
    return (found or {0} & {0 for word in words if word in ("none", "no")}) == right


def moved(state, places):
    """The facts with tubes in their new places, by barcode."""
    wanted = facts(state)
    for tube in wanted["tubes"]:
        tube["box"], tube["slot"] = places.get(tube["barcode"], (tube["box"], tube["slot"]))
    return wanted


def verify_moved(initial_state, final_state, variables):
    wanted = moved(initial_state, {variables["codes"][0]: (variables["box"], variables["slot"])})
    return verdict(facts(final_state) == wanted)


def verify_drawn(initial_state, final_state, final_answer, variables):
    codes, ul = variables["codes"], round(variables["ml"] * 1000)
    wanted = facts(initial_state)
    wanted["drawn"] = [{"barcode": codes[1], "ul": ul}]
    for tube in wanted["tubes"]:
        if tube["barcode"] == codes[1]:
            tube["ul"] -= ul
            tube["thaws"] += 1
    named = [number for number in re.findall(r"\d{5}", final_answer or "") if number != codes[0]]
    return verdict(facts(final_state) == wanted and named and set(named) == {codes[1]})


def verify_quarantined(initial_state, final_state, variables):
    places = {code: ("Q", slot) for code, slot in zip(variables["mine"], variables["free"], strict=False)}
    return verdict(facts(final_state) == moved(initial_state, places))


def verify_cleared(initial_state, final_state, final_answer, variables):
    """Each tube where the protocol has it, worked out anew from what the tubes were."""
    places, next_slot, little = {}, {"B": 1, "C": 2, "Q": 1}, 0
    for tube in sorted(initial_state["tubes"], key=lambda one: one["barcode"]):
        if tube["study"] != variables["study"]:
            continue
        box = "Q" if tube["ul"] < variables["least"] else "C" if tube["material"] == "rna" else "B"
        places[tube["barcode"]] = (box, next_slot[box])
        next_slot[box] += 1
        little += box == "Q"
    right = facts(final_state) == moved(initial_state, places)
    return verdict(right and tells(final_answer, {little}, variables["asked"]))
