"""Calls played in an environment without an episode around them: what came of each, and the state in the end."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quintain.environments.base import Prepared, ToolOutcome
from quintain.errors import TemplateError
from quintain.tasks.base import ToolCall

JsonObject = dict[str, Any]

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Played:
    """What calls came to, and the state after the last of them where it is JSON."""

    outcomes: tuple[ToolOutcome, ...]
    state: JsonObject


async def play(
    prepared: Prepared,
    start: JsonObject | None,
    calls: Sequence[ToolCall],
    *,
    seed: int = 0,
    timeout_s: float = TIMEOUT_S,
    scratch: Path | None = None,
) -> Played:
    """Play calls from the start that is given; a call that fails is an outcome like any other.

    Raises:
        SandboxError: no instance could be started, or its state is gone.
        TemplateError: it cannot start so, or its state is no JSON object.
    """
    environment = prepared.environment()
    try:
        await environment.reset(seed, start)
        outcomes = [await environment.call(one.name, one.arguments, timeout_s) for one in calls]
        with tempfile.TemporaryDirectory(prefix="quintain_played_", dir=scratch) as folder:
            files = await environment.snapshot(Path(folder))
            state = json.loads(files[0].path.read_bytes()) if prepared.state.endswith(".json") else {}
    finally:
        await environment.close()
    if not isinstance(state, dict):
        raise TemplateError("the state is no JSON object")
    return Played(tuple(outcomes), state)
