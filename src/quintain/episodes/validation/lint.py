"""What can be said of a scenario without playing it: its document against its kind, its bounds against its tools."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quintain.contracts.tools import Tool
from quintain.environments import mock, simulator
from quintain.environments.inprocess.findings import Finding as DocumentFinding
from quintain.tasks.base import TaskSource
from quintain.tasks.over import SourceOver
from quintain.tasks.packs import PackSource
from quintain.tasks.packs.documents import read_document
from quintain.tasks.united import UnitedSource

CHECKS: Final[Mapping[str, Callable[[dict[str, Any]], list[DocumentFinding]]]] = {
    mock.KIND: mock.check,
    simulator.KIND: simulator.check,
}
"""By kind of environment, what tells everything that is wrong with an environment.yaml."""


def document_findings(source: TaskSource, scenario: str) -> tuple[list[str], list[str]]:
    """What keeps a pack's environment from being played, and what may be wrong with it: `file:line: field: what`.

    Nothing for scenarios that are of no pack, and for kinds whose documents are checked only when they are loaded.
    """
    pack, check = _pack_of(source, scenario), CHECKS.get(source.scenario(scenario).kind)
    if pack is None or check is None:
        return [], []
    file = pack.document_of(scenario)
    document = read_document((pack.folder / file).read_bytes(), file)
    if document.problems or not isinstance(document.value, dict):
        return [str(one) for one in document.problems], []
    value = {key: one for key, one in document.value.items() if key not in ("title", "description")}
    fatal, other = list[str](), list[str]()
    for finding in check(value):
        (fatal if finding.fatal else other).append(str(document.problem(finding.path, finding.message)))
    return fatal, other


def bounds_warnings(source: TaskSource, scenario: str, tools: Sequence[Tool]) -> list[str]:
    """Tools that bounds of tasks forbid and that are not there."""
    known = {tool.name for tool in tools}
    warnings = []
    for index in range(len(source.scenario(scenario).tasks)):
        policy = source.policy(scenario, index)
        for name in policy.forbidden_tools if policy is not None else ():
            if name not in known:
                warnings.append(f"task {index} forbids {name}, and there is no such tool; correct its name")
    return warnings


def _pack_of(source: TaskSource, scenario: str) -> PackSource | None:
    while not isinstance(source, PackSource):
        if isinstance(source, UnitedSource):
            source = source.part_of(scenario)
        elif isinstance(source, SourceOver):
            source = source.beneath
        else:
            return None
    return source
