"""Packs of one Python environment, for tests."""

from pathlib import Path
from typing import Any

import yaml

JsonObject = dict[str, Any]

DESK = '''
"""A parcel desk."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal


class DeskError(Exception):
    """A rule of the desk."""


class Speed(Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass
class Parcel:
    weight: float
    speed: Speed = Speed.SLOW
    notes: list[str] = field(default_factory=list)


class Desk:
    def __init__(self, town: str, parcels: dict[str, Parcel] | None = None):
        self.town = town
        self.parcels = parcels or {}
        self.done = False
        self._drawer = []

    def add(self, name: str, parcel: Parcel) -> int:
        """Take a parcel in.

        Args:
            name: under which it is kept,
                in capitals
            parcel: what it is
        """
        if name in self.parcels:
            raise DeskError(f"{name} is here already")
        self.parcels[name] = parcel
        self._drawer.append(name)
        return len(self.parcels)

    def names(self, order: Literal["up", "down"] = "up") -> list[str]:
        """The names of all parcels."""
        return sorted(self.parcels, reverse=order == "down")

    def speed(self, name: str) -> Speed:
        return self.parcels[name].speed

    def close(self) -> str:
        """Close the desk for today."""
        self.done = True
        return "closed"
'''

DOCUMENT: JsonObject = {
    "kind": "python",
    "title": "Desk",
    "entry": "app:Desk",
    "construct": {"town": "Ulm"},
    "errors": ["DeskError"],
}

TASKS: list[JsonObject] = [
    {
        "name": "add_one",
        "variables": {"weight": {"integer": [1, 9]}},
        "text": "Take in a fast parcel B of ${weight} kg, then close.",
        "start": {"parcels": {"A": {"weight": 2, "speed": "fast"}}},
        "solution": [
            {"tool": "add", "arguments": {"name": "B", "parcel": {"weight": "${weight}", "speed": "fast"}}},
            {"tool": "close"},
        ],
        "answer": "Done.",
        "verify": "verify_added",
    }
]

VERIFIER = """
def verify_added(initial_state, final_state, final_answer, variables, trace):
    parcel = final_state["parcels"].get("B", {})
    good = parcel.get("weight") == variables["weight"] and parcel.get("speed") == "fast" and final_state["done"]
    return {"result": "complete" if good and len(initial_state["parcels"]) == 1 else "others", "calls": len(trace)}
"""


def write_pack(
    folder: Path,
    document: JsonObject | None = None,
    files: dict[str, str] | None = None,
    tasks: list[JsonObject] | None = None,
    verifier: str = VERIFIER,
) -> Path:
    """A pack with one environment `desk`."""
    desk = folder / "desk"
    desk.mkdir(parents=True)
    about = {"apiVersion": "quintain.dev/v1alpha1", "kind": "Pack", "name": "tried", "title": "Tried"}
    (folder / "pack.yaml").write_text(yaml.safe_dump(about))
    (desk / "environment.yaml").write_text(yaml.safe_dump(document or DOCUMENT))
    (desk / "tasks.yaml").write_text(yaml.safe_dump(TASKS if tasks is None else tasks))
    (desk / "verifier.py").write_text(verifier)
    for name, text in (files or {"app.py": DESK}).items():
        (desk / name).parent.mkdir(parents=True, exist_ok=True)
        (desk / name).write_text(text)
    return folder
