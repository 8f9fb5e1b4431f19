"""Tables of the reference pages that are made from the source: `python docs/tables.py` writes them.

A page marks a table's place with `<!-- table: NAME -->` and `<!-- end -->`. A test compares what is there.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from quintain import errors
from quintain.cli.main import app
from quintain.contracts.observation import AwmObservation
from quintain.contracts.terminal import TRUNCATED
from quintain.rollout.attribution import RETRIES, ROWS
from quintain.rollout.events import FIELDS
from quintain.sandboxes.base import IsolationLevel, SandboxLimits
from quintain.sandboxes.conformance import applicable
from quintain.server.settings import settings_table
from quintain.tasks.pools import moves_table
from quintain.tasks.quarantine import MEANINGS, Reason

DOCS = Path(__file__).resolve().parent
_REGION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> str:
    """Every command with its arguments and options."""
    return "\n".join(_command_rows(typer.main.get_command(app), "quintain")).strip()


def _command_rows(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "list_commands"):
        for word in sorted(command.list_commands(None)):
            yield from _command_rows(command.get_command(None, word), f"{name} {word}")
        return
    yield f"### `{name}`\n\n{(command.help or '').strip()}\n"
    parameters = [one for one in command.params if one.name != "help"]
    if parameters:
        yield "| Argument or option | Meaning |\n|---|---|"
        for one in parameters:
            names = ", ".join(f"`{option}`" for option in one.opts)
            shown = names if one.param_type_name == "option" else f"`{str(one.name).upper()}`"
            yield f"| {shown} | {getattr(one, 'help', None) or ''} |"
        yield ""


def observation() -> str:
    """The fields of an observation."""
    rows = [f"| `{name}` | {field.description} |" for name, field in AwmObservation.model_fields.items()]
    return "\n".join(["| Field | Meaning |", "|---|---|", *rows])


def error_tree() -> str:
    """The error tree as its module prints it."""
    lines = (errors.__doc__ or "").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("QuintainError"))
    tree = "\n".join(line for line in lines[first:] if line == "QuintainError" or line.startswith(("├", "│", "└")))
    return f"```text\n{tree}\n```"


def checks() -> str:
    """What each level keeps."""
    reduced = {check.name for check in applicable(IsolationLevel.REDUCED)}
    none = {check.name for check in applicable(IsolationLevel.NONE)}
    rows = [
        f"| {check.area} | {(check.run.__doc__ or '').strip()} | "
        f"{'every provider' if check.name in none else 'full, reduced' if check.name in reduced else 'full'} |"
        for check in applicable(IsolationLevel.FULL)
    ]
    return "\n".join(["| Area | What must hold | Asked of |", "|---|---|---|", *rows])


def limits() -> str:
    """The default limits of an instance."""
    defaults = SandboxLimits()
    rows = [
        ("Address space beyond the template's", f"{defaults.memory_bytes // 2**20} MiB"),
        ("Private tmpfs", f"{defaults.disk_bytes // 2**20} MiB"),
        ("Processes and threads", str(defaults.pids)),
        ("CPU time over the instance's life", f"{defaults.cpu_seconds} s"),
        ("Descriptors per process", str(defaults.open_files)),
    ]
    return "\n".join(["| Limit | Default |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def reasons() -> str:
    """Why tasks go into quarantine."""
    rows = [f"| `{reason}` | {MEANINGS[reason]} |" for reason in Reason]
    return "\n".join(["| Reason | Meaning |", "|---|---|", *rows])


def attribution() -> str:
    """Whose failure is what."""
    rows = [
        f"| `{row.cause}` | {row.component} | {row.owner or 'nobody'} | {row.retry} | {row.reward} | "
        f"{'yes' if row.cause in TRUNCATED else ''} |"
        for row in ROWS
    ]
    return "\n".join(
        ["| Cause | Component | Owner | Tried again | Reward | Truncated |", "|---|---|---|---|---|---|", *rows]
    )


def retries() -> str:
    """What may be tried again."""
    rows = [f"| `{retry}` | {meaning} |" for retry, meaning in RETRIES.items()]
    return "\n".join(["| Rule | Meaning |", "|---|---|", *rows])


def events() -> str:
    """What a run tells."""
    rows = [f"| `{event}` | {meaning} |" for event, meaning in FIELDS.items()]
    return "\n".join(["| Event | Meaning |", "|---|---|", *rows])


TABLES: dict[str, Callable[[], str]] = {
    "attribution": attribution,
    "checks": checks,
    "commands": commands,
    "error_tree": error_tree,
    "events": events,
    "limits": limits,
    "moves": moves_table,
    "observation": observation,
    "reasons": reasons,
    "retries": retries,
    "settings": settings_table,
}


def filled(text: str) -> str:
    """A page with every marked table as the source has it now."""
    return _REGION.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}\n{match[3]}", text)


def pages() -> list[Path]:
    """The pages that have such a table."""
    return [page for page in sorted(DOCS.rglob("*.md")) if _REGION.search(page.read_text())]


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text()))
