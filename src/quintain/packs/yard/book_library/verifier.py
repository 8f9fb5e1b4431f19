"""What must be true when a task of the library is done."""

import re
import sqlite3

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
TITLES = {4: "a field of wrens", 6: "the slow lock", 7: "nine bridges", 8: "tin and amber"}


def verdict(right):
    return {"result": "complete" if right else "others"}


def tables(path):
    """All rows of all tables, by their first column."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    names = [
        row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    ]
    return {name: {row[0]: list(row) for row in db.execute(f'SELECT * FROM "{name}"')} for name in names}


def both(initial_db_path, final_db_path):
    return tables(initial_db_path), tables(final_db_path)


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text or "")
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text)}


def tells(answer, right, asked):
    """Whether an answer tells one of these numbers and no other, but for those of the question.

    It is in figures or, where there are none, in words up to twelve.
    """
    words = re.findall(r"[a-z]+", (answer or "").lower())
    found = numbers(answer) - (numbers(asked) - right) or {WORDS.index(word) for word in words if word in WORDS}
    return bool(found) and found <= right


def added(before, after, table):
    """The rows that are new in a table, without their keys; they are taken out of `after`."""
    new = sorted(after[table].keys() - before[table].keys())
    return [after[table].pop(key)[1:] for key in new]


def verify_returned(initial_db_path, final_db_path, variables):
    wanted, final = both(initial_db_path, final_db_path)
    wanted["loans"][variables["loan"]][4] = 1
    wanted["copies"][variables["copy"]][2] = "in"
    return verdict(final == wanted)


def verify_hold(initial_db_path, final_db_path, variables):
    before, after = both(initial_db_path, final_db_path)
    new = added(before, after, "holds")
    return verdict(new == [[variables["edition"], variables["member"]]] and after == before)


def verify_owed(initial_db_path, final_db_path, final_answer, variables):
    before, after = both(initial_db_path, final_db_path)
    total = variables["total"]
    return verdict(after == before and tells(final_answer, {total, total / 100}, variables["asked"]))


def days(answer):
    """The days of the month that an answer names; a whole date of another month or year is no day of this one."""
    dates = re.findall(r"\d{4}-\d\d-\d\d", answer or "")
    plain = re.sub(r"\d{4}-\d\d-\d\d", " ", answer or "")
    found = {int(one) for one in re.findall(r"(?<!\w)(\d{1,2})(?:th|rd|st|nd)?(?!\w)", plain)}
    return found | {int(one[-2:]) if one.startswith("2026-02-") else 0 for one in dates}


def verify_lent(initial_db_path, final_db_path, final_answer, variables):
    before, after = both(initial_db_path, final_db_path)
    copy, due = variables["title"] + 20, variables["due"]
    before["members"][4][3] = "valid"
    before["copies"][copy][2] = "out"
    right = added(before, after, "loans") == [[copy, 4, f"2026-02-{due}", 0, 0]] and after == before
    return verdict(right and days(final_answer) - {variables["day"], 1, 2, 14} == {due})


def verify_waived(initial_db_path, final_db_path, final_answer, variables):
    """Worked out anew from the fines that there were."""
    wanted, final = both(initial_db_path, final_db_path)
    remain = 0
    for fine in wanted["fines"].values():
        if fine[1] == variables["member"] and fine[4] == "open":
            if fine[3] == "late" and fine[2] <= variables["most"]:
                fine[4] = "waived"
            else:
                remain += fine[2]
    return verdict(final == wanted and tells(final_answer, {remain, remain / 100}, variables["asked"]))


def verify_moved_away(initial_db_path, final_db_path, final_answer, variables):
    before, after = both(initial_db_path, final_db_path)
    titles, member = variables["titles"], variables["member"]
    for loan, renewals in ((501, 1), (504, 2)):
        before["loans"][loan][3], before["loans"][loan][5] = f"2026-02-{variables['day'] + 14}", renewals
    for loan in (502, 503):
        before["loans"][loan][4] = 1
    before["copies"][titles[1] + 10][2] = "in"
    del before["holds"][61]
    right = added(before, after, "loans") == [[titles[2] + 10, 2, "2026-02-24", 0, 0]]
    right = right and added(before, after, "holds") == [[titles[1], member]] and after == before
    text = " ".join((final_answer or "").lower().split())
    named = {title for title, name in TITLES.items() if name.removeprefix("the ").removeprefix("a ") in text}
    return verdict(right and named == {titles[0], titles[3]})
