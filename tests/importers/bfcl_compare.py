"""Verdicts of an imported pack beside those of BFCL's own checker, on references, no-ops and spoilt references.

    python tests/importers/bfcl_compare.py SITE_PACKAGES REPORT.json [SPOILT]

    python tests/importers/bfcl_compare.py SITE_PACKAGES REPORT.json SPOILT TASK...

All in one process, without sandboxes. SITE_PACKAGES holds `bfcl_eval` and `mpmath`. The report has counts, and rows: of
attempts on which the two do not agree, or of all where tasks are named.
"""

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import one_process

from quintain.contracts.tools import RESPOND
from quintain.episodes.plainly import play
from quintain.tasks import PackSource
from quintain.tasks.base import ToolCall
from quintain.tasks.importers import BfclPack, BfclPackage, Category, Entry, read_entries
from quintain.tasks.importers.bfcl_pack import BfclEnvironment, reference_calls, start_of

Turns = tuple[tuple[ToolCall, ...], ...]
WAYS = ("wrong argument", "dropped call", "extra call", "swapped order")


@dataclass(frozen=True)
class Attempt:
    """Calls of each turn, and how they came to be."""

    entry: Entry
    how: str
    turns: Turns


def attempts(entries: Sequence[Entry], spoilt: int, seed: str = "quintain") -> list[Attempt]:
    """Every reference, every no-op, and so many spoilt references, drawn over all entries."""
    chance = random.Random(f"bfcl/{seed}")
    found = [Attempt(one, "reference", one.reference) for one in entries]
    found += [Attempt(one, "no-op", ((),) * len(one.reference)) for one in entries]
    known: dict[tuple[str, ...], list[ToolCall]] = {}
    for one in entries:
        known.setdefault(one.classes, []).extend(call for turn in one.reference for call in turn)
    while len(found) < 2 * len(entries) + spoilt:
        entry, how = chance.choice(entries), chance.choice(WAYS)
        turns = _spoilt(entry, how, known[entry.classes], chance)
        if turns is not None and turns != entry.reference:
            found.append(Attempt(entry, how, turns))
    return found


def _spoilt(entry: Entry, how: str, known: Sequence[ToolCall], chance: random.Random) -> Turns | None:
    turns = [list(turn) for turn in entry.reference]
    places = [(index, at) for index, turn in enumerate(turns) for at in range(len(turn))]
    index, at = chance.choice(places)
    call = turns[index][at]
    if how == "wrong argument":
        if not call.arguments:
            return None
        name = chance.choice(sorted(call.arguments))
        wrong = _wrong(call.arguments[name], chance)
        turns[index][at] = ToolCall(name=call.name, arguments={**call.arguments, name: wrong})
    elif how == "dropped call":
        del turns[index][at]
    elif how == "extra call":
        index = chance.randrange(len(turns))
        turns[index].insert(chance.randint(0, len(turns[index])), chance.choice(known))
    else:
        if at + 1 == len(turns[index]):
            return None
        turns[index][at : at + 2] = turns[index][at + 1], call
    return tuple(tuple(turn) for turn in turns)


def _wrong(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return chance.choice([None, 7, "seven", [7], {"seven": 7}])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return chance.choice([value + 1, value * 2, -value, float(value), value + 0.5])
    if isinstance(value, str):
        return chance.choice([f"{value}_2", value[:-1], value.upper(), ""])
    if isinstance(value, list):
        return chance.choice([value[:-1], [*value, "more"], list(reversed(value))])
    return {**value, "more": 1}


def calls_of(turns: Turns) -> list[ToolCall]:
    """All calls, with what the agent says between turns."""
    said = ToolCall(name=RESPOND, arguments={"message": "Done."})
    found: list[ToolCall] = []
    for index, turn in enumerate(turns):
        found += [*([said] if index else []), *turn]
    return found


def theirs(rows: dict[str, Any], number: int, attempt: Attempt) -> str:
    """What BFCL's checker says: `valid`, or its type of error."""
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker, multi_turn_utils

    row = rows[attempt.entry.name]
    result = [[[_written(call)] for call in turn] for turn in attempt.turns]
    try:
        found = multi_turn_checker.multi_turn_checker(
            result, row["ground_truth"], row, attempt.entry.category, f"attempt{number}"
        )
    finally:
        for name in [one for one in vars(multi_turn_utils) if one.startswith(f"attempt{number}_")]:
            delattr(multi_turn_utils, name)
    return "valid" if found["valid"] else str(found["error_type"])


def _written(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


class Ours:
    """What the pack's verifiers say: `valid`, or the type of error; and how many calls were not done, by status."""

    def __init__(self, package: BfclPackage, entries: Sequence[Entry], folder: Path) -> None:
        self.pack = BfclPack(package, entries)
        self._folder = folder / "pack"
        self.pack.write(self._folder)
        self._source = PackSource.open(self._folder)
        self._kind = one_process.kind_in(folder / "stand")
        self._scratch = folder

    async def judged(self, one: BfclEnvironment, tried: Sequence[Attempt]) -> list[tuple[Attempt, str, Counter[str]]]:
        """Every attempt at tasks of one environment."""
        name = self._source.scenario(one.folder).name
        prepared = await self._kind.prepare(self._source.payload_digest(name), lambda: self._source.payload(name))
        states = []
        for entry in one.entries:
            start = start_of(entry, withhold=False)
            states.append((await play(prepared, start, reference_calls(entry), scratch=self._scratch)).state)
        self.pack.expect(self._folder, one, states)
        code = (self._folder / one.folder / "verifier.py").read_text()
        namespace: dict[str, Any] = {}
        exec(compile(code, "verifier.py", "exec"), namespace)
        found = []
        for attempt in tried:
            played = await play(prepared, start_of(attempt.entry), calls_of(attempt.turns), scratch=self._scratch)
            verdict = namespace[f"verify_{attempt.entry.name}"](played.state)
            said = "valid" if verdict["result"] == "complete" else verdict["error_type"]
            statuses = Counter(str(outcome.status) for outcome in played.outcomes)
            if statuses["server_error"] or statuses["timeout"]:
                print("not done:", attempt, [one for one in played.outcomes if one.error][:2], file=sys.stderr)
            found.append((attempt, said, statuses))
        return found


async def compared(site: Path, spoilt: int, only: frozenset[str] | None = None) -> dict[str, Any]:
    """The report."""
    package = BfclPackage.at(site)
    entries = [entry for category in Category for entry in read_entries(package, category, only)]
    rows = _rows(package)
    tried = attempts(entries, spoilt)
    agreed: Counter[tuple[str, str, str]] = Counter()
    rows_told = []
    said_there = {id(attempt): theirs(rows, number, attempt) for number, attempt in enumerate(tried)}
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(package, entries, Path(folder))
        for one in ours.pack.environments:
            names = {entry.name for entry in one.entries}
            for attempt, said, statuses in await ours.judged(one, [each for each in tried if each.entry.name in names]):
                other = said_there[id(attempt)]
                agreed[(attempt.entry.category, attempt.how, f"{said == 'valid'}/{other == 'valid'}")] += 1
                if said != other or only is not None:
                    turns = [[call.model_dump() for call in turn] for turn in attempt.turns]
                    rows_told.append(
                        {"task": attempt.entry.name, "how": attempt.how, "ours": said, "theirs": other,
                         "statuses": dict(statuses), "turns": turns}
                    )  # fmt: skip
    counts = [
        {"category": a, "how": b, "ours/theirs": c, "count": count} for (a, b, c), count in sorted(agreed.items())
    ]
    return {"attempts": len(tried), "counts": counts, "rows": rows_told}


def _rows(package: BfclPackage) -> dict[str, Any]:
    rows = {}
    for category in Category:
        file = f"BFCL_v4_multi_turn_{category}.json"
        for row in package.lines(f"data/{file}"):
            rows[row["id"]] = row
        for row in package.lines(f"data/possible_answer/{file}"):
            rows[row["id"]]["ground_truth"] = row["ground_truth"]
    return rows


def main() -> None:
    """Compare, and write the report."""
    site, report = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    sys.path.append(str(site))
    found = asyncio.run(
        compared(site, int(sys.argv[3]) if len(sys.argv) > 3 else 1000, frozenset(sys.argv[4:]) or None)
    )
    report.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
