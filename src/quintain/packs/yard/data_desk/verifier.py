"""What must lie in the folder in the end. Results are worked out anew from what there was at the beginning."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path


def verdict(right):
    return {"result": "complete" if right else "others"}


def files(folder):
    """All files of a folder, by their path."""
    base = Path(folder)
    return {str(one.relative_to(base)): one.read_bytes() for one in sorted(base.rglob("*")) if one.is_file()}


def kept(initial_dir, final_dir):
    """Whether all of raw/ is as it was, with nothing added."""
    return files(Path(initial_dir, "raw")) == files(Path(final_dir, "raw"))


def text(folder, name):
    file = Path(folder, name)
    return file.read_text(errors="replace") if file.is_file() else ""


def verify_counted(initial_dir, final_dir, variables):
    lines = text(initial_dir, "raw/gate.log").splitlines()
    wanted = sum(line.split()[1:3] == [variables["level"], variables["gate"]] for line in lines)
    return verdict(kept(initial_dir, final_dir) and text(final_dir, "count.txt").strip() == str(wanted))


def verify_cleaned(initial_dir, final_dir):
    rows = {}
    for row in csv.DictReader(text(initial_dir, "raw/members.csv").splitlines()):
        mail = row["mail"].strip().lower()
        if "@" in mail:
            rows[mail] = [" ".join(row["name"].split()), mail, row["joined"].strip()]
    wanted = [["name", "mail", "joined"], *sorted(rows.values(), key=lambda row: row[1])]
    found = list(csv.reader(text(final_dir, "clean.csv").splitlines()))
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
        found = {name: json.loads(content) for name, content in files(Path(final_dir, "config")).items()}
    except ValueError:
        found = None
    return verdict(kept(initial_dir, final_dir) and found == wanted)


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
    except ValueError:
        found = None
    said = str(sum(owed.values())) in (final_answer or "").replace(" ", "")
    return verdict(kept(initial_dir, final_dir) and found == owed and said)
