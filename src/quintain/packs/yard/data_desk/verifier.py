"""What must lie in the folder in the end. Results are worked out anew from what there was at the beginning.

What an agent left may be anything: what is no regular file, or cannot be read, counts as such and stops nothing.
"""

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path

UNREADABLE = (OSError, ValueError, RecursionError, csv.Error)


def verdict(right):
    return {"result": "complete" if right else "others"}


def content(file):
    """The bytes of a regular file; None for a link, for anything else, and for what cannot be read."""
    try:
        return file.read_bytes() if file.is_file() and not file.is_symlink() else None
    except OSError:
        return None


def files(folder):
    """All that lies in a folder but folders, by its path."""
    found, left = {}, [Path(folder)]
    while left:
        inside = left.pop()
        try:
            for one in inside.iterdir():
                if one.is_dir() and not one.is_symlink():
                    left.append(one)
                else:
                    found[str(one.relative_to(folder))] = content(one)
        except OSError:
            found[str(inside.relative_to(folder))] = None
    return found


def under(found, name):
    """The part of such files that lies in one of its folders, by the path from there."""
    return {path.removeprefix(f"{name}/"): bytes_ for path, bytes_ in found.items() if path.startswith(f"{name}/")}


def kept(initial_dir, final_dir):
    """Whether all files are as they were, and nothing was added to raw/."""
    first, last = files(initial_dir), files(final_dir)
    return first.items() <= last.items() and under(first, "raw") == under(last, "raw")


def text(folder, name):
    return (content(Path(folder, name)) or b"").decode(errors="replace")


def verify_counted(initial_dir, final_dir, variables):
    lines = text(initial_dir, "raw/gate.log").splitlines()
    wanted = sum(line.split()[1:3] == [variables["level"], variables["gate"]] for line in lines)
    return verdict(kept(initial_dir, final_dir) and text(final_dir, "count.txt").strip() == str(wanted))


def verify_cleaned(initial_dir, final_dir, variables):
    """Of rows with the same mail the first or the last is kept, and one column they are sorted by."""
    rows = {}
    for row in csv.DictReader(text(initial_dir, "raw/members.csv").splitlines()):
        mail = row["mail"].strip().lower()
        if "@" in mail and (mail not in rows or variables["keep"] == "last"):
            rows[mail] = [" ".join(row["name"].split()), mail, row["joined"].strip()]
    header = ["name", "mail", "joined"]
    wanted = [header, *sorted(rows.values(), key=lambda row: row[header.index(variables["by"])])]
    try:
        found = list(csv.reader(text(final_dir, "clean.csv").splitlines()))
    except UNREADABLE:
        found = None
    return verdict(kept(initial_dir, final_dir) and found == wanted)


def verify_kept(initial_dir, final_dir, tests):
    return verdict(tests["complete"] and kept(initial_dir, final_dir))


def seconds(value):
    number, unit = int(value[:-1]), value[-1]
    return number * {"s": 1, "m": 60, "h": 3600}[unit]


def verify_migrated(initial_dir, final_dir, variables):
    """A JSON file for each service that is on, and nothing else in config/."""
    wanted = {}
    for file in Path(initial_dir, "raw/services").glob("*.ini"):
        plain = [
            line.split("=", 1) for line in file.read_text().splitlines() if "=" in line and not line.startswith(";")
        ]
        old = {name.strip(): value.strip() for name, value in plain}
        if old.get("enabled", "yes") == "yes":
            new = {"port": int(old["port"]), "timeout_s": seconds(old.get("timeout", variables["timeout"]))}
            wanted[f"{file.stem}.json"] = {**new, "hosts": [one.strip() for one in old["hosts"].split(",")]}
    try:
        found = {name: json.loads(written or b"") for name, written in under(files(final_dir), "config").items()}
    except UNREADABLE:
        found = None
    return verdict(kept(initial_dir, final_dir) and found == wanted)


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    text = re.sub(r"(?<=\d)[,'](?=\d{3}\b)", "", text or "")
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text)}


def verify_found_out(initial_dir, final_dir, final_answer):
    """Orders that were charged twice within ten minutes and not paid back, with what is owed, in cents."""
    shops = {}
    for name in ("north", "south", "web"):
        for line in text(initial_dir, f"raw/{name}.log").splitlines():
            when, what, order, cents = line.split()
            moment = datetime.fromisoformat(when).astimezone(UTC)
            shops.setdefault(order, []).append((moment, what, int(cents)))
    owed = {}
    for order, events in shops.items():
        charges = sorted((moment, cents) for moment, what, cents in events if what == "charge")
        double = len(charges) > 1 and (charges[1][0] - charges[0][0]).total_seconds() <= 600
        if double and not any(what == "refund" for _, what, _ in events):
            owed[order] = charges[1][1]
    try:
        found = json.loads(text(final_dir, "owed.json"))
    except UNREADABLE:
        found = None
    told, total = numbers(final_answer), sum(owed.values())
    return verdict(kept(initial_dir, final_dir) and found == owed and bool(told) and told <= {total, total / 100})
