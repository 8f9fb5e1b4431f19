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


def numbers(answer):
    """The numbers of an answer, in figures or, up to twelve, in words."""
    text = re.sub(r"(?<=\d)[,' ](?=\d{3}\b)", "", (answer or "").lower())
    found = [float(one) for one in re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", text)]
    return found + [WORDS.index(word) for word in re.findall(r"[a-z]+", text) if word in WORDS]


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
    told, total = numbers(final_answer), variables["total"]
    return verdict(after == before and len(set(told)) <= 8 and (total in told or total / 100 in told))


def verify_lent(initial_db_path, final_db_path, final_answer, variables):
    before, after = both(initial_db_path, final_db_path)
    copy, due = variables["title"] + 20, variables["due"]
    before["members"][4][3] = "valid"
    before["copies"][copy][2] = "out"
    right = added(before, after, "loans") == [[copy, 4, f"2026-02-{due}", 0, 0]] and after == before
    day = re.search(rf"2026-02-{due}\b|\b{due}(th|rd|st|nd)?\b", final_answer or "")
    return verdict(right and day is not None)


def verify_waived(initial_db_path, final_db_path, final_answer, variables):
    """Worked out anew from the fines that there were."""
    wanted, final = both(initial_db_path, final_db_path)
    remain = 0
    for fine in wanted["fines"].values():
        if fine[1] == variables["member"] and fine[4] == "open":
            if fine[3] == "late" and fine[2] <= variables["most"]:
                fine[4] = "waived"
            else:
                remain += 1
    return verdict(final == wanted and remain in numbers(final_answer))


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
