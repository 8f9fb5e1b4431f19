"""Whether two states hold the same: by their bytes, or for databases by the digest of what is in them.

That digest is taken in a sandbox.
"""

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import quintain.verifiers
from quintain.contracts.identity import sha256
from quintain.environments.inprocess.machine import OWN, STATE
from quintain.episodes.base import Rooms
from quintain.errors import Owner, SandboxError, VerifierError
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.trees import BASE, REMOVED, ROOT
from quintain.tasks.base import Verifier
from quintain.verifiers.base import About
from quintain.verifiers.changes import StateChanges, TableChange

_ASK = """

def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    return {"result": "told", "digests": [logical_digest(initial_db_path), logical_digest(final_db_path)]}
"""


async def hold_the_same(rooms: Rooms, one: Sequence[StateFile], other: Sequence[StateFile]) -> bool:
    """Whether two states are the same files, trees, or databases with the same schema, rows, row ids and counters.

    Raises:
        VerifierError: one of them is no database, or a damaged one.
        SandboxError: no sandbox could be had to tell.
    """
    if _contents(one) == _contents(other):
        return True
    if all(len(files) == 1 and Path(files[0].name).suffix == ".tar" for files in (one, other)):
        return _unchanged(one[0].path, other[0].path) or _unchanged(other[0].path, one[0].path)
    if not all(files and Path(files[0].name).suffix == ".db" for files in (one, other)):
        return False
    first, second, _ = await logical_digests(rooms, one, other)
    return first == second


async def facts_agree(rooms: Rooms, one: Sequence[StateFile], other: Sequence[StateFile]) -> bool:
    """Whether two states hold the same in the end. Left aside is how many calls it took, which a state file's own part
    counts, and how a conversation went, but for its length.

    Raises:
        VerifierError: one of them is no database, or a damaged one.
        SandboxError: no sandbox could be had to tell.
    """
    if one and other and one[0].name == other[0].name == STATE:
        return bool(_facts(one[0]) == _facts(other[0]))
    return await hold_the_same(rooms, one, other)


def _facts(file: StateFile) -> Any:
    state = json.loads(file.path.read_bytes())
    own = state.pop(OWN, None) if isinstance(state, dict) else None
    if isinstance(state, dict) and isinstance(turns := state.get("turns"), list):
        state["turns"] = len(turns)
    return state, own.get("at") if isinstance(own, dict) else None


def said(files: Sequence[StateFile]) -> list[Any]:
    """What an agent said in the turns of a conversation; empty where a state holds none."""
    if not files or files[0].name != STATE:
        return []
    state = json.loads(files[0].path.read_bytes())
    turns = state.get("turns") if isinstance(state, dict) else None
    return [turn.get("answer") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []


async def difference(rooms: Rooms, one: Sequence[StateFile], other: Sequence[StateFile]) -> list[str] | None:
    """What two states hold otherwise, a line per table of a database; None if they hold the same, as above.

    Raises:
        VerifierError: one of them is no database, or a damaged one.
        SandboxError: no sandbox could be had to tell.
    """
    if _contents(one) == _contents(other):
        return None
    if not all(files and Path(files[0].name).suffix == ".db" for files in (one, other)):
        return ["the state's file"]
    first, second, changes = await logical_digests(rooms, one, other, changes=True)
    if first == second:
        return None
    return [_told(table) for table in changes.tables] if changes and changes.tables else ["what the tables hold"]


def _unchanged(whole: Path, changes: Path) -> bool:
    """Whether a tar of changes goes over a tree's tar, and there are none."""
    with tarfile.open(changes, "r:", errors="surrogateescape") as archive:
        base, removed = archive.pax_headers.get(BASE), archive.pax_headers.get(REMOVED, "[]")
        return base == sha256(whole.read_bytes()) and removed == "[]" and archive.getnames() == [ROOT]


def _told(change: TableChange) -> str:
    numbers = (("added", change.inserted), ("missing", change.deleted), ("changed", change.changed))
    rows = [f"{number} rows {what}" for what, number in numbers if number]
    other = [what for what, so in (("another schema", change.reshaped), ("another counter", change.counter)) if so]
    kind = [] if change.kind == "changed" else [change.kind]
    return f"{change.table}: {', '.join([*kind, *rows, *other]) or 'changed'}"


async def logical_digests(
    rooms: Rooms, one: Sequence[StateFile], other: Sequence[StateFile], *, changes: bool = False
) -> tuple[str, str, StateChanges | None]:
    """The digests of what two databases hold, and if asked for the tables that differ; see `hold_the_same`."""
    # what scenarios write is not opened here: it is read where verifiers run, by the code that defines the digest
    code = (Path(quintain.verifiers.__file__).parent / "verifier_kind" / "digest.py").read_text() + _ASK
    asking = Verifier(scenario="validation", task_idx=0, mode="code", code=code)
    verdict = await rooms.verifier.score("code", {"code": asking}, one, other, None, About(changes=changes))
    if verdict.failure_owner is Owner.INFRASTRUCTURE:
        raise SandboxError(f"no sandbox could tell what the databases hold: {verdict.reason}")
    if not verdict.certain:
        raise VerifierError(f"what the databases hold could not be told: {verdict.reason}")
    first, second = verdict.value["digests"]
    return str(first), str(second), verdict.changes


def _contents(files: Sequence[StateFile]) -> dict[str, bytes]:
    """The bytes by suffix: two databases may be called otherwise."""
    name = files[0].name if files else ""
    return {file.name.removeprefix(name): file.path.read_bytes() for file in files}
