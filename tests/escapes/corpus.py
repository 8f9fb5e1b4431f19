"""The whole corpus, and the table of it in the documentation: `python tests/escapes/corpus.py` writes that."""

import re
import sys
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from escapes import exhaustion, files, interpreter, kernel, network, processes, state
from escapes.base import Escape

CORPUS: Final[tuple[Escape, ...]] = (
    *interpreter.ESCAPES,
    *files.ESCAPES,
    *processes.ESCAPES,
    *network.ESCAPES,
    *kernel.ESCAPES,
    *exhaustion.ESCAPES,
    *state.ESCAPES,
)
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/explanation/sandbox.md"
_REGION = re.compile(r"(<!-- corpus -->\n).*?(<!-- end of corpus -->)", re.DOTALL)


def by_name() -> dict[str, Escape]:
    """Every attempt by its name."""
    return {one.name: one for one in CORPUS}


def table() -> str:
    """Every attempt, who makes it, and why it must fail."""
    rows = []
    for one in CORPUS:
        level = " (full)" if one.levels == ("full",) else ""
        rows.append(f"| {one.area} | {one.name} | {', '.join(one.roles)}{level} | {one.reason} |")
    return "\n".join(["| Area | Attempt | Made by | Why it fails |", "|---|---|---|---|", *rows])


def filled(text: str) -> str:
    """The page with the table as the corpus has it."""
    return _REGION.sub(lambda match: f"{match[1]}{table()}\n{match[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
