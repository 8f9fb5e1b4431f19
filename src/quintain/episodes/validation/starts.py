"""Whether a scenario starts the same each time: from one template, from another built anew, warmed and not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quintain.contracts.tools import Tool
from quintain.environments.base import Prepared, RebuildsPayloads, Rebuilt
from quintain.episodes.validation.base import Finding
from quintain.episodes.validation.plays import Bench, as_bytes, first_difference, observed
from quintain.episodes.validation.states import hold_the_same
from quintain.sandboxes.base import StateFile
from quintain.tasks.quarantine import Reason

MAX_READS: Final = 5
"""How many tools are tried as first reads: the first that need no argument."""


async def same_starts(bench: Bench) -> list[Finding]:
    """What differs between starts of one scenario with one seed.

    Raises:
        QuintainError: it could not be started.
    """
    prepared, kind = bench.prepared, bench.rooms.kind(bench.rooms.source.scenario(bench.scenario).kind)
    one, other = await _first_reads(bench, prepared), await _first_reads(bench, prepared)
    if found := _differing(prepared.tools, one, other):
        return [Finding(reason=Reason.FIRST_OBSERVATION_DIFFERS, detail=f"on one template, {found}")]
    if not isinstance(kind, RebuildsPayloads):
        return []
    anew = await kind.rebuilt(prepared)
    if found := await _otherwise_built(bench, anew):
        return [Finding(reason=Reason.FIRST_OBSERVATION_DIFFERS, detail=found)]
    if found := _differing(prepared.tools, one, await _first_reads(bench, anew.prepared)):
        return [Finding(reason=Reason.WARM_DIFFERS, detail=f"warmed, then not, {found}")]
    return []


async def _first_reads(bench: Bench, prepared: Prepared) -> list[bytes | None]:
    """What each tool that needs no argument answers as the first call of an episode of its own."""
    reads = [await _first_read(bench, prepared, tool) for tool in _readable(prepared.tools)]
    return reads or [await _first_read(bench, prepared, None)]


async def _first_read(bench: Bench, prepared: Prepared, tool: Tool | None) -> bytes | None:
    environment = prepared.environment()
    try:
        async with bench.rooms.admission:
            await environment.reset(bench.seed)
        return None if tool is None else observed(await environment.call(tool.name, {}, bench.read_timeout_s))
    finally:
        await environment.close()


def _readable(tools: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in tools if not tool.input_schema.get("required")][:MAX_READS]


def _differing(tools: Sequence[Tool], one: Sequence[bytes | None], other: Sequence[bytes | None]) -> str:
    """The first read that differs, in words; empty for none."""
    for tool, first, second in zip(_readable(tools), one, other, strict=False):
        if first != second and first is not None and second is not None:
            return f"the first read by {tool.name} differs at {first_difference(first, second)}"
    return ""


async def _otherwise_built(bench: Bench, anew: Rebuilt) -> str:
    """What a payload that was made ready anew has otherwise, in words; empty for nothing."""
    told = [
        as_bytes({"tools": [tool.model_dump(mode="json") for tool in one.tools]})
        for one in (bench.prepared, anew.prepared)
    ]
    if told[0] != told[1]:
        return f"built twice, its tools differ at {first_difference(told[0], told[1])}"
    built = _written(anew.state, bench.prepared.state_names, bench.folder / "anew")
    if not await hold_the_same(bench.rooms, anew.kept, built):
        return "built twice, its initial states differ"
    return ""


def _written(state: Mapping[str, bytes], names: Sequence[str], folder: Path) -> list[StateFile]:
    folder.mkdir()
    files = []
    for name in names:
        if name in state:
            (folder / name).write_bytes(state[name])
            files.append(StateFile(name, folder / name))
    return files
