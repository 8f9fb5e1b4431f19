"""Answers that name all that could be right, or are made to stop a verifier, are paid by none of the tasks."""

import sqlite3
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from packs import yard_play
from quintain.artifacts import LocalArtifactStore
from quintain.environments.mock import mock_kind
from quintain.environments.simulator import simulator_kind
from quintain.tasks.shipped import PACKS
from quintain.verifiers.verifier_kind.code import run

STOPPING = ["9" * 5000, "9" * 5000 + ".5", "1." * 3000, "\x00", "٣" * 40, "-" * 5000, "1 2 " * 5000]
"""What no verifier may fall over."""

STEPS = [5, 25, 100]


def guesses(answer: str) -> list[str]:
    """The right answer among others, in the ways in which somebody lists who does not know it."""
    several = ["1, 2, 3", ", ".join(str(one) for one in range(3000)), " ".join(f"{one}.00" for one in range(100))]
    words = "zero one two three four five six seven eight nine ten eleven twelve"
    steps = [" ".join(str(one) for one in range(0, 20_000, step)) for step in STEPS]
    return [*(f"{answer} Or {one}." for one in (*several, *steps)), *several, *steps, words, yard_play.GUESSES]


def asked(scenario: str, idx: int, inputs: dict[str, Any], variables: dict[str, Any]) -> str:
    """What the verifier of a task says."""
    verifier = yard_play.yard().verifier(scenario, idx, "code")
    assert verifier is not None
    more = {"trace": [], "variables": variables, "tests": {"complete": True}}
    return str(run(verifier.code, verifier.function, deepcopy(inputs), more)["result"])


def check(scenario: str, idx: int, seed: int, say: Callable[[str], dict[str, Any]], right: str) -> None:
    """The right answer is complete, none of the guesses is, and nothing stops the verifier.

    Args:
        say: what the verifier gets when this is what was answered.
    """
    variables = yard_play.yard().task(scenario, idx, seed).variables
    assert asked(scenario, idx, say(right), variables) == "complete", (scenario, idx, seed, right)
    for answer in (*guesses(right), *STOPPING, ""):
        assert asked(scenario, idx, say(answer), variables) != "complete", (scenario, idx, seed, answer[:60])


IN_PROCESS = [
    ("refund_desk", 2),
    ("refund_desk", 3),
    ("sample_freezer", 3),
    ("rail_changes", 0),
    ("rail_changes", 2),
]


@pytest.mark.parametrize(("scenario", "idx"), IN_PROCESS)
async def test_mocks_and_simulators(scenario: str, idx: int, tmp_path: Path) -> None:
    kind = simulator_kind if scenario == "rail_changes" else mock_kind
    ready = await yard_play.prepared(kind(LocalArtifactStore(tmp_path / "artifacts"), tmp_path), scenario)
    for seed in yard_play.SEEDS:
        calls, right = yard_play.solution(scenario, idx, seed)
        played = await yard_play.play(ready, scenario, idx, seed, yard_play.Script(calls, right), tmp_path)

        def say(answer: str, played: yard_play.Played = played) -> dict[str, Any]:
            return {"initial_state": played.first, "final_state": played.last, "final_answer": answer}

        check(scenario, idx, seed, say, right)


@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_one_version_is_told(seed: int) -> None:
    """Beside the present version only the one that the dashboard shows may be named."""
    v = yard_play.yard().task("incident_room", 1, seed).variables
    state: dict[str, Any] = {"services": {}, "_episode": {}}
    well = "healthy" if v["well"] else "not healthy"
    said = {
        f"{v['new']}, {well}": "complete",
        f"{v['new']} and {well}; {v['old']} was shown": "complete",
        f"{v['new']} {well}, or 3.5.9": "others",
        f"{well} " + " ".join(f"3.{minor}.{patch}" for minor in range(9) for patch in range(9)): "others",
        f"{well} " + "1" * 200_000: "others",
    }
    for answer, verdict in said.items():
        inputs = {"initial_state": state, "final_state": state, "final_answer": answer}
        assert asked("incident_room", 1, inputs, v) == verdict, answer[:60]


@pytest.mark.parametrize("seed", yard_play.SEEDS)
async def test_no_fee_is_told_by_telling_all(seed: int, tmp_path: Path) -> None:
    """The traveller agrees to one sum, whatever trains, times and days are named beside it; not to a list."""
    kind = simulator_kind(LocalArtifactStore(tmp_path / "artifacts"), tmp_path)
    ready = await yard_play.prepared(kind, "rail_changes")
    calls, right = yard_play.solution("rail_changes", 1, seed)
    variables = yard_play.yard().task("rail_changes", 1, seed).variables
    fee = variables["surcharge"] + variables["more"]
    (place,) = [at for at, (_, given) in enumerate(calls) if "The change costs" in given.get("message", "")]
    euros = f"{fee // 100}.{fee % 100:02d}"
    lists = [
        *(" ".join(str(one) for one in range(0, 3001, step)) for step in (50, 100)),
        f"It costs {fee} or {fee + 100} cents.",
        f"It costs {euros} euros, or {fee // 100 + 1}.00.",
        "05:00 06:00 07:00 08:00 09:00 10:00 11:00 12:00 13:00 5:00 6:00 7:00 8:00 9:00",
        f"Train R{fee} has a seat.",
    ]
    plain = [
        f"Train {variables['trains'][3]} leaves at 08:10 on 2026-02-{variables['day'] + 1}; the fee is {fee} cents.",
        f"On the {variables['day'] + 1}th, 08:10: {euros} euros ({fee} cents) for {variables['refs'][0]}. Agreed?",
        f"February {variables['day'] + 1}, for {fee} cents. Is that all right?",
    ]
    for message, verdict in [*((one, "others") for one in lists), *((one, "complete") for one in plain)]:
        told = [*calls[:place], ("respond", {"message": message}), *calls[place + 1 :]]
        played = await yard_play.play(ready, "rail_changes", 1, seed, yard_play.Script(told, right), tmp_path)
        assert played.verdict == verdict, message[:80]


def house(scenario: str, start: dict[str, Any]) -> tuple[Any, list[str]]:
    """A Python environment made by its class, and what of it is its state."""
    names: dict[str, Any] = {"__name__": scenario}
    exec(compile((PACKS / "yard" / scenario / "app.py").read_text(), f"{scenario}/app.py", "exec"), names)
    given = {name: value for name, value in start.items() if name != "conversation"}
    if scenario == "event_hall":
        return names["Hall"](**deepcopy(given)), ["bookings", "refunds"]
    return names["Books"](**deepcopy(given)), ["entries", "closed", "reopened"]


SAID_IN = {2: 2, 3: 1, 4: 1}
"""By task of the event hall: in which turn the sum is told."""


@pytest.mark.parametrize(
    ("scenario", "idx"), [("event_hall", 1), ("event_hall", 2), ("event_hall", 3), ("event_hall", 4), ("club_books", 1)]
)
@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_python(scenario: str, idx: int, seed: int) -> None:
    calls, right = yard_play.solution(scenario, idx, seed)
    desk, kept = house(scenario, yard_play.yard().task(scenario, idx, seed).start)

    def state() -> dict[str, Any]:
        return {name: deepcopy(getattr(desk, name)) for name in kept}

    first, turns = state(), []
    for name, arguments in calls:
        if name == "respond":
            turns.append({"answer": arguments["message"]})
            continue
        try:
            getattr(desk, name)(**arguments)
        except Exception as error:
            assert "Error" in type(error).__name__  # noqa: PT017
    last = state()
    if len(turns) == SAID_IN.get(idx, 0) + 1 and idx == 3:
        turns.append({"answer": right})

    def say(answer: str) -> dict[str, Any]:
        told = deepcopy(turns)
        if idx in SAID_IN and scenario == "event_hall":
            told[SAID_IN[idx]]["answer"] = answer
        return {"initial_state": first, "final_state": {**last, "turns": told}, "final_answer": answer}

    sum_told = turns[SAID_IN[idx]]["answer"] if scenario == "event_hall" and idx in SAID_IN else right
    check(scenario, idx, seed, say, sum_told)


def done(scenario: str, idx: int, v: dict[str, Any]) -> list[str]:
    """What the solution of a database task comes to, in SQL."""
    if (scenario, idx) == ("book_library", 3):
        copy = v["title"] + 20
        return [
            "UPDATE members SET card = 'valid' WHERE id = 4",
            f"UPDATE copies SET state = 'out' WHERE id = {copy}",
            f"INSERT INTO loans VALUES (900, {copy}, 4, '2026-02-{v['due']}', 0, 0)",
        ]
    if (scenario, idx) == ("book_library", 4):
        return [f"UPDATE fines SET state = 'waived' WHERE id IN ({v['ids'][0]}, {v['ids'][1]}, {v['ids'][5]})"]
    return []


@pytest.mark.parametrize(
    ("scenario", "idx"), [("book_library", 2), ("book_library", 3), ("book_library", 4), ("depot_stock", 2)]
)
@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_databases(scenario: str, idx: int, seed: int, tmp_path: Path) -> None:
    _, right = yard_play.solution(scenario, idx, seed)
    task, folder = yard_play.yard().task(scenario, idx, seed), PACKS / "yard" / scenario
    for name in ("first", "last"):
        with sqlite3.connect(tmp_path / name) as db:
            db.executescript((folder / "schema.sql").read_text() + (folder / "data.sql").read_text())
            for statement in [*task.start["sql"], *(done(scenario, idx, task.variables) if name == "last" else [])]:
                db.execute(statement)
        db.close()

    def say(answer: str) -> dict[str, Any]:
        paths = {"initial_db_path": str(tmp_path / "first"), "final_db_path": str(tmp_path / "last")}
        return {**paths, "final_answer": answer}

    check(scenario, idx, seed, say, right)


def test_answers_vary_with_the_seed() -> None:
    """No answer can be learnt by heart."""
    for scenario, idx in [*IN_PROCESS, ("event_hall", 1), ("event_hall", 4), ("book_library", 4), ("club_books", 1)]:
        answers = {yard_play.solution(scenario, idx, seed)[1] for seed in range(8)}
        assert len(answers) >= 3, (scenario, idx, answers)
    for scenario, idx in [("harbour_history", 1), ("harbour_history", 3), ("cargo_library", 0), ("data_desk", 1)]:
        found = {repr(yard_play.solution(scenario, idx, seed)) for seed in range(8)}
        assert len(found) >= 3, (scenario, idx)
    rooms = {yard_play.yard().task("event_hall", 1, seed).variables["room"] for seed in range(8)}
    assert len(rooms) == 3
