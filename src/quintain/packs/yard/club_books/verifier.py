"""What must stand in the books in the end. Tasks say what the texts of new entries are; those of reversals are free."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def line(one):
    text = "" if one["reverses"] else one["text"]
    return (one["day"], one["debit"], one["credit"], one["cents"], one["reverses"], text)


def stands(initial, final, new, closed=()):
    """Whether all that stood there still does, just these entries have come, in any order, and months were closed."""
    found = dict(final["entries"])
    kept = all(found.pop(number, None) == one for number, one in initial["entries"].items())
    same = sorted(line(one) for one in found.values()) == sorted(new)
    return kept and same and final["closed"] == [*initial["closed"], *closed] and final["reopened"] == []


def back(initial, number, day):
    """The entry that reverses another."""
    one = initial["entries"][number]
    return (day, one["credit"], one["debit"], one["cents"], number, "")


def sums(answer):
    """The sums of an answer, in cents; a sum without cents is in euros."""
    text = re.sub(r"\d{4}-\d\d(-\d\d)?|[A-Za-z]\d+", " ", answer or "")
    return {
        int(whole) * 100 + int((part or "0").ljust(2, "0"))
        for whole, part in re.findall(r"(?<!\d)(\d{1,15})(?:[.,](\d{1,2}))?(?!\d)", text)
    }


def verify_posted(initial_state, final_state, variables):
    v = variables
    cents = v["euros"] * 100 + v["rest"]
    return verdict(stands(initial_state, final_state, [(v["day"], "1000", v["account"], cents, "", "received")]))


def verify_cash(initial_state, final_state, final_answer, variables):
    """One sum is told; the day, and what stands in the question, may be named too."""
    said = sums(final_answer) - sums(variables["asked"]) - sums("31 2026")
    return verdict(said == {variables["left"] * 100} and stands(initial_state, final_state, []))


def verify_corrected(initial_state, final_state, variables):
    entry = f"E{variables['place'] + 1}"
    again = ("2026-02-10", "6200", "1000", variables["cents"], "", variables["what"])
    new = [back(initial_state, entry, "2026-02-10"), again]
    return verdict(stands(initial_state, final_state, new))


def verify_reconciled(initial_state, final_state, variables):
    """What was missing, on the bank's day; what was wrong or double reversed, on the day of the entry."""
    v = variables
    rent = ("2026-01-05", "6000", "1000", v["rent"], "", "rent")
    charge = ("2026-01-30", "6300", "1000", v["charge"], "", "charges")
    new = [back(initial_state, "E2", "2026-01-05"), rent, charge]
    either = [[*new, back(initial_state, twice, "2026-01-12")] for twice in ("E3", "E5")]
    return verdict(any(stands(initial_state, final_state, wanted, ["2026-01"]) for wanted in either))


def verify_shared(initial_state, final_state, variables):
    v, day = variables, "2026-02-10"
    groups = sorted(v["members"].items())
    accounts = {"house": "6100", "boats": "6110", "youth": "6120"}
    shares = {name: v["bill"] * count // sum(v["members"].values()) for name, count in groups}
    shares[max(v["members"], key=v["members"].get)] += v["bill"] - sum(shares.values())
    new = [(day, accounts[name], "2000", cents, "", "insurance") for name, cents in shares.items()]
    new += [back(initial_state, "E4", day), (day, "2000", "1000", v["bill"], "", "insurance")]
    return verdict(stands(initial_state, final_state, new))
