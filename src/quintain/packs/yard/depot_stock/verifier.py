"""What must be true when a task of the depot is done."""

import re
import sqlite3

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def verdict(right):
    return {"result": "complete" if right else "others"}


class Depot:
    """A depot's tables; stock by item, bin and day, for rows of stock come and go."""

    def __init__(self, path):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        names = [row[0] for row in db.execute(query)]
        self.rest = {
            name: {row[0]: list(row) for row in db.execute(f'SELECT * FROM "{name}"')}
            for name in names
            if name != "stock"
        }
        self.stock = {}
        self.by_id = {}
        for key, item, place, pieces, expires in db.execute("SELECT * FROM stock"):
            self.by_id[key] = (item, place, expires)
            self.add(item, place, pieces, expires)

    def add(self, item, place, pieces, expires=""):
        found = self.stock.pop((item, place, expires), 0) + pieces
        if found:
            self.stock[item, place, expires] = found

    def __eq__(self, other):
        return (self.rest, self.stock) == (other.rest, other.stock)


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


def verify_moved(initial_db_path, final_db_path, variables):
    wanted = Depot(initial_db_path)
    wanted.add(variables["stock"], "A1", -variables["pieces"])
    wanted.add(variables["stock"], "A3", variables["pieces"])
    return verdict(Depot(final_db_path) == wanted)


def verify_booked(initial_db_path, final_db_path, variables):
    wanted = Depot(initial_db_path)
    wanted.rest["deliveries"][variables["id"] + 1][3] = "booked"
    wanted.add(variables["item"], "A3", variables["pieces"])
    return verdict(Depot(final_db_path) == wanted)


def verify_counted(initial_db_path, final_db_path, final_answer, variables):
    same = Depot(final_db_path) == Depot(initial_db_path)
    return verdict(same and tells(final_answer, {variables["total"]}, variables["asked"]))


def verify_stored(initial_db_path, final_db_path, variables):
    wanted, lying, room = Depot(initial_db_path), variables["lying"], variables["room"]
    first = min(lying, room)
    wanted.add(5, variables["wrong"], -lying)
    wanted.add(5, "F1", first)
    wanted.add(5, "F2", lying - first)
    return verdict(Depot(final_db_path) == wanted)


def verify_shipped(initial_db_path, final_db_path, variables):
    """Picked by the day on which it expires, worked out anew from the stock that there was."""
    wanted, left = Depot(initial_db_path), variables["wanted"]
    for item, place, expires in sorted(wanted.stock, key=lambda key: key[2]):
        if item == 8 and expires > "2026-02-10" and left:
            taken = min(left, wanted.stock[item, place, expires])
            wanted.add(item, place, -taken, expires)
            left -= taken
    wanted.rest["lines"][91][4] = variables["wanted"]
    wanted.rest["orders"][variables["order"]][2] = "shipped"
    return verdict(Depot(final_db_path) == wanted)


def verify_cleared(initial_db_path, final_db_path, final_answer, variables):
    wanted, cultures, tapes, gloves = (
        Depot(initial_db_path),
        *(variables[name] for name in ("cultures", "tapes", "gloves")),
    )
    old, fresh = variables["old"], variables["fresh"]
    places = {place: pieces for (item, place, _), pieces in wanted.stock.items() if item == 1 and pieces >= gloves - 5}
    wanted.add(1, min(places, key=places.get), 5 - gloves)
    wanted.add(3, "K1", -tapes - 6)
    wanted.add(3, "A2", 6)
    wanted.add(8, "K1", -cultures[old - 41], wanted.by_id[old][2])
    wanted.add(8, "K1", -cultures[fresh - 41], wanted.by_id[fresh][2])
    wanted.add(8, "K2", cultures[fresh - 41], wanted.by_id[fresh][2])
    wanted.rest["lines"][95][4], wanted.rest["lines"][96][4] = gloves - 5, tapes
    wanted.rest["orders"][variables["order"]][2] = "shipped"
    wanted.rest["written_off"] = {1: [1, old, cultures[old - 41]]}
    told = tells(final_answer, {cultures[old - 41]}, variables["asked"])
    return verdict(told and Depot(final_db_path) == wanted)
