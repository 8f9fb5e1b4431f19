"""A small world for tests: toy scenarios and their verifiers, in process and without isolation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.identity import cas_uri, digest_of
from quintain.environments import DatabaseKind, DatabaseTemplates, EpisodeClass
from quintain.episodes import Rooms
from quintain.episodes.admission import Admission
from quintain.errors import UnknownTaskError
from quintain.records import MemoryLedger
from quintain.sandboxes.base import SandboxClass
from quintain.sandboxes.inprocess import InProcessProvider
from quintain.tasks.base import (
    Problem,
    Provenance,
    Scenario,
    ScenarioReport,
    Solution,
    TaskPolicy,
    TaskRef,
    Verifier,
    VerifierMode,
    normalised,
)
from quintain.verifiers import CodeVerifier, Judge, JudgedVerifier

KINDS = Path(__file__).parent / "kinds"

COUNTS_NOTES = """
import sqlite3
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    def count(path):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        return db.execute("SELECT count(*) FROM notes WHERE text = 'buy milk'").fetchone()[0]
    return {"result": "complete" if count(final_db_path) > count(initial_db_path) else "others"}
"""

VERIFIERS = {
    "count": COUNTS_NOTES,
    "crash": "def verify_task_completion(a, b, c=None):\n    raise ValueError('broken verifier')\n",
    "shape": "def verify_task_completion(a, b, c=None):\n    return 'complete'\n",
    "answer": "def verify_task_completion(a, b, c=None):\n    return {'result': 'complete' if c == '42' else 'no'}\n",
    "slow": "def verify_task_completion(a, b, c=None):\n    time.sleep(3)\n    return {'result': 'complete'}\n",
    "exit": "def verify_task_completion(a, b, c=None):\n    raise SystemExit(1)\n",
    "nan": "def verify_task_completion(a, b, c=None):\n    return {'result': 'complete', 'score': float('nan')}\n",
    "wordless": "def verify_task_completion(a, b, c=None):\n    return {'result': 7}\n",
}


class ToySource:
    """Scenario `toy_notes_1` with a task per verifier (the first also has an sql one), and three odd scenarios."""

    def __init__(self, notes: Sequence[str] = ("water plants",)) -> None:
        self._notes = list(notes)
        tasks = tuple(f"Do what verifier {name} looks for." for name in VERIFIERS)
        self._scenarios = {
            "toy_notes_1": Scenario(name="toy_notes_1", title="Toy Notes 1", description="Notes.", tasks=tasks),
            "bare_2": Scenario(name="bare_2", title="Bare 2", tasks=("Nothing to be done.",)),
            "broken_3": Scenario(name="broken_3", title="Broken 3", tasks=("Cannot be done.",)),
            "reserved_4": Scenario(name="reserved_4", title="Reserved 4"),
        }
        self.dataset_digest = digest_of({"toy": self._notes})
        self.manifest: dict[str, Any] = {"layout": "toy"}
        self.provenance = Provenance(source="tests")
        self.problems: Sequence[Problem] = ()
        self.policies: dict[tuple[str, int], TaskPolicy] = {}

    def scenarios(self) -> Sequence[Scenario]:
        return tuple(self._scenarios.values())

    def scenario(self, name: str) -> Scenario:
        if normalised(name) not in self._scenarios:
            raise UnknownTaskError(f"no scenario {name!r}")
        return self._scenarios[normalised(name)]

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        scenario = self.scenario(name)
        if task_idx is None:
            return TaskRef(scenario=scenario.name)
        if not 0 <= task_idx < len(scenario.tasks):
            raise UnknownTaskError(f"no task {task_idx} in {scenario.name}")
        modes = tuple(verifier.mode for verifier in self.verifiers(name, task_idx))
        return TaskRef(scenario=scenario.name, task_idx=task_idx, text=scenario.tasks[task_idx], verifiers=modes)

    def payload(self, name: str) -> dict[str, Any]:
        scenario = self.scenario(name).name
        codes = {"bare_2": "no tools", "broken_3": "does not load", "reserved_4": "echo and done"}
        code = codes.get(scenario, "# the toy app\n")
        return {
            "scenario": scenario,
            "database": f"{scenario}.db",
            "code": code,
            "schema": {},
            "sample": self._notes,
            "epoch": "2026-02-10T00:00:00Z",
        }

    def payload_digest(self, name: str) -> str:
        return digest_of(self.payload(name))

    def dataset_of(self, name: str) -> str:
        self.scenario(name)
        return self.dataset_digest

    def template(self, name: str, task_idx: int) -> dict[str, Any] | None:
        self.task(name, task_idx)
        return None

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        return next((found for found in self.verifiers(name, task_idx) if found.mode == mode), None)

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        scenario = self.scenario(name).name
        if scenario != "toy_notes_1":
            return ()
        code = list(VERIFIERS.values())[task_idx]
        found = [Verifier(scenario=scenario, task_idx=task_idx, mode="code", code=code)]
        if task_idx == 0:
            found.append(Verifier(scenario=scenario, task_idx=0, mode="sql", code="def verify_task(a, b): ..."))
        return tuple(found)

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        self.task(name, task_idx)
        return None

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        self.task(name, task_idx)
        return self.policies.get((normalised(name), task_idx))

    def report(self, name: str) -> ScenarioReport:
        return ScenarioReport(scenario=self.scenario(name).name, tasks=0, verifiers={"code": 0, "sql": 0}, solutions=0)


class ToyWorld:
    """Rooms over the in-process provider."""

    def __init__(
        self,
        root: Path,
        provider: InProcessProvider,
        start_timeout_s: float = 30.0,
        admission: Admission | None = None,
    ) -> None:
        lock = root / "empty.lock"
        lock.write_text("")
        self.provider = provider
        self.source = ToySource()
        self.store = LocalArtifactStore(root / "artifacts")
        self.toy_class = SandboxClass(name="toy", lock=lock, kind=KINDS / "toy_awm")
        self.verifier_class = SandboxClass(name="toy-verifier", lock=lock, kind=KINDS / "toy_verifier")
        self.templates = DatabaseTemplates(provider, self.toy_class, self.store)
        self.verifier = CodeVerifier(provider, self.verifier_class, time_limit_s=1.0)
        self.scratch = root / "scratch"
        self.scratch.mkdir()
        empty = cas_uri(digest_of({}))
        self.episode_class = EpisodeClass(
            environment_class="toy", dependency_lock=empty, runtime="inprocess", policy=empty
        )
        self.ledger = MemoryLedger()
        self.rooms = Rooms(
            source=self.source,
            kinds={"database": DatabaseKind(self.templates, self.episode_class, self.scratch)},
            provider=provider,
            disposal=self.templates.disposal,
            verifier=JudgedVerifier(self.verifier, Judge()),
            ledger=self.ledger,
            admission=admission or Admission(4),
            scratch=self.scratch,
            start_timeout_s=start_timeout_s,
        )

    @property
    def leftovers(self) -> list[str]:
        """What lies in the scratch directory: nothing, between calls."""
        return [path.name for path in self.scratch.iterdir()]
