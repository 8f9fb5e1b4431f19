"""Hidden tests: run where no agent was; what an agent leaves in the tree does not make them pass."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from quintain.environments.workspace import workspace_class
from quintain.errors import CallTimeout, SandboxError, SandboxLost, VerifierError
from quintain.sandboxes.base import Template
from quintain.sandboxes.fork import ForkProvider
from quintain.tasks.base import HiddenTests, Verifier
from quintain.tasks.packs.source import ALL_TESTS_PASS
from quintain.verifiers import CodeVerifier
from quintain.verifiers.base import About, Verdict
from quintain.verifiers.sandbox import verifier_class
from quintain.verifiers.workspace import WorkspaceTests, expected_tests, outcome

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("workspace")]

TESTS = """
import pytest
import workspace

def total(numbers):
    return workspace.call("sums:total", list(numbers))

@pytest.mark.parametrize("n", [0, 5])
def test_total(n):
    assert total(range(n)) == sum(range(n))

class TestOne:
    def test_first(self):
        assert total([3]) == 3

def test_variables():
    assert workspace.VARIABLES == {"n": 3}
"""
IN_PROCESS = """
import json, os
import pytest
from sums import total

@pytest.mark.parametrize("n", [0, 5])
def test_total(n):
    assert total(range(n)) == sum(range(n))

class TestOne:
    def test_first(self):
        assert total([3]) == 3

def test_variables():
    assert json.loads(os.environ["VARIABLES"]) == {"n": 3}
"""
RIGHT = "def total(numbers):\n    return sum(numbers)\n"
WRONG = "def total(numbers):\n    return 0\n"
NAMES = ["TestOne::test_first", "test_total[0]", "test_total[5]", "test_variables"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def code(workshop: Any) -> AsyncIterator[CodeVerifier]:
    """Verifies workspaces."""
    runner = WorkspaceTests(workshop.provider, workspace_class(), scratch=workshop.scratch)
    yield CodeVerifier(workshop.provider, verifier_class(20.0), tests=runner)


def verifier(text: str = ALL_TESTS_PASS, function: str = "verify_tests", **tests: Any) -> Verifier:
    hidden = HiddenTests(**{"files": {"test_sums.py": TESTS}, **tests})
    return Verifier(scenario="bench", task_idx=0, mode="code", code=text, function=function, tests=hidden)


async def verdict(
    workshop: Any, code: CodeVerifier, root: Path, files: dict[str, str], judged: Verifier | None = None
) -> Verdict:
    """The verdict on a tree to which an agent wrote these files."""
    async with workshop.playing({"sums.py": WRONG}, root) as player:
        for path, content in files.items():
            await player.text("write", path=path, content=content)
        root.mkdir(exist_ok=True)
        initial, final = player.environment.initial, await player.environment.snapshot(root)
        return await code.verify(judged or verifier(), initial, final, "done", About(variables={"n": 3}))


async def test_a_right_tree_passes_and_a_wrong_one_does_not(workshop: Any, code: CodeVerifier, tmp_path: Path) -> None:
    found = await verdict(workshop, code, tmp_path, {"sums.py": RIGHT})
    assert (found.certain, found.reward_type) == (True, "complete"), found
    told = found.value["tests"]
    assert (told["passed"], told["failed"], told["exit_status"]) == ([f"test_sums.py::{one}" for one in NAMES], [], 0)
    found = await verdict(workshop, code, tmp_path, {})
    assert (found.certain, found.reward_type) == (True, "incomplete")
    assert found.value["tests"]["failed"] == [f"test_sums.py::{one}" for one in (NAMES[0], NAMES[2])]


TRICKS = {
    "a conftest": {
        "conftest.py": "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome = 'passed'\n    return report\n"
    },
    "pytest's settings": {
        "pytest.ini": "[pytest]\naddopts = --collect-only -k nothing\npython_files = none.py\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n",
        "tox.ini": "[pytest]\naddopts = --collect-only\n",
    },
    "modules in the place of others": {
        "pytest.py": "def main(*a, **k): return 0\n",
        "_pytest/__init__.py": "raise SystemExit(0)\n",
        "json.py": "raise SystemExit(0)\n",
        "sitecustomize.py": "import os\nos._exit(0)\n",
        "usercustomize.py": "import os\nos._exit(0)\n",
        "test_sums.py": "def test_total(): pass\n",
    },
    "a plugin": {
        "evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
        "evil.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil.py": "import os\nos._exit(0)\n",
    },
    "programs": {"python": "#!/bin/sh\nexit 0\n", "bin/pytest": "#!/bin/sh\nexit 0\n"},
    "an exit at once": {"sums.py": "import os\nos._exit(0)\n"},
    "an exit from a test": {"sums.py": "import os\ndef total(n):\n    os._exit(0)\n"},
    "an exit at the end": {"sums.py": f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}"},
    "an error of its own": {"sums.py": "raise SystemExit(0)\n"},
    "a skip": {"sums.py": "import pytest\npytest.skip('no', allow_module_level=True)\n"},
    "a skip of each": {"sums.py": "import pytest\ndef total(n):\n    pytest.skip('no')\n"},
    "a process that writes": {
        "sums.py": "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'{\"finished\": 0}\\n')\n"
        "    except OSError:\n        pass\n" + WRONG
    },
    "no end": {"sums.py": "import os, time\nif os.fork() == 0:\n    os.setsid()\nwhile True:\n    time.sleep(1)\n"},
    "no module": {"sums.py": "def other(): pass\n"},
}
LOOKS = """
import glob, os, re
seen = [f"{name}={value}" for name, value in os.environ.items()]
for pid in filter(str.isdigit, os.listdir("/proc")):
    for what in ("environ", "cmdline", "maps", "mem", "fd"):
        if pid == str(os.getpid()):
            continue
        try:
            place = f"/proc/{pid}/{what}"
            seen += os.listdir(place) if what == "fd" else [repr(open(place, "rb").read(1000))]
        except OSError:
            pass
for folder in ("/data", "/tmp", "/workspace", os.environ.get("TESTS", "/tests")):
    for path in glob.glob(folder + "/**", recursive=True):
        try:
            seen += [path, open(path).read() if os.path.isfile(path) and "sums.py" not in path else ""]
        except OSError:
            pass
SECRET = [one for one in seen if re.search("0nly-h[e]re|4[2]4242", one)]
def total(numbers):
    return SECRET
"""
"""What a process of the tree's sees of a test that expects something: its environment, other processes, files."""


@pytest.mark.parametrize("trick", TRICKS)
async def test_a_trick_is_no_solution(workshop: Any, code: CodeVerifier, tmp_path: Path, trick: str) -> None:
    judged = verifier(timeout_s=3.0 if trick == "no end" else 60.0)
    found = await verdict(workshop, code, tmp_path, TRICKS[trick], judged)
    assert (found.certain, found.reward_type) == (True, "incomplete"), found


PATCHES = {
    "pytest's own classes": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
    "every report": "import os\nfor pid in filter(str.isdigit, os.listdir('/proc')):\n    for fd in range(3, 20):\n"
    "        try:\n            file = open(f'/proc/{pid}/fd/{fd}', 'ab')\n"
    "            file.write(b'{\"finished\": 0}\\n')\n"
    "        except OSError:\n            pass\n",
    "what equals everything": "class Any(int):\n    def __eq__(self, other): return True\ntotal = lambda n: Any()\n",
}


@pytest.mark.parametrize("patch", PATCHES)
async def test_what_the_tree_changes_in_its_process_stays_there(
    workshop: Any, code: CodeVerifier, tmp_path: Path, patch: str
) -> None:
    found = await verdict(workshop, code, tmp_path, {"sums.py": WRONG + PATCHES[patch]})
    assert (found.certain, found.reward_type) == (True, "incomplete"), found
    assert f"test_sums.py::{NAMES[2]}" in found.value["tests"]["failed"]


async def test_the_trees_processes_find_nothing_of_what_a_test_expects(
    workshop: Any, code: CodeVerifier, tmp_path: Path
) -> None:
    text = """
import workspace
SECRET = "0nly-here"
def test_seen():
    assert workspace.VARIABLES["answer"] == 424242
    assert (workspace.FILES["more.txt"], SECRET) == (b"0nly-here too", "0nly-here")
    assert workspace.call("sums:total", []) == []
    assert workspace.evaluate("import sums; result = sums.SECRET") == []
    assert workspace.run("python", "-c", "import sums; print(sums.SECRET)").stdout == "[]\\n"
"""
    judged = verifier(files={"test_seen.py": text, "more.txt": "0nly-here too"})
    async with workshop.playing({"sums.py": LOOKS}, tmp_path) as player:
        initial, final = player.environment.initial, await player.environment.snapshot(tmp_path)
        found = await code.verify(judged, initial, final, "", About(variables={"answer": 424242}))
    assert found.reward_type == "complete", found.log


PLANTED = """
import os
os.makedirs("/data/tests", exist_ok=True)
with open("/data/tests/csv.py", "w") as file:
    file.write("import _pytest.python\\n_pytest.python.Function.runtest = lambda self: None\\n")
def total(numbers):
    return 0
"""
LAZY = """
import workspace
def test_first():
    workspace.call("sums:total", [3])
    import csv
def test_total():
    assert workspace.call("sums:total", [3]) == 3
"""
TOLD = """
import os, re
def total(numbers):
    return int(re.search(r"-(\\d+)\\]", os.environ["PYTEST_CURRENT_TEST"])[1])
"""
WITH_RESULTS = """
import pytest, workspace
@pytest.mark.parametrize("numbers, expected", [("ab", 6), ("c", 10)])
def test_total(numbers, expected):
    assert workspace.call("sums:total", numbers) == expected
"""
CONFTEST = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"


@pytest.mark.parametrize(
    ("tree", "tests"),
    [
        ({"sums.py": PLANTED}, {"files": {"test_lazy.py": LAZY}}),
        ({"sums.py": TOLD}, {"files": {"test_told.py": WITH_RESULTS}}),
        ({"tests/conftest.py": CONFTEST}, {"command": "python -m pytest -q tests"}),
        ({"conftest.py": CONFTEST}, {"command": "python -m pytest -q ."}),
    ],
    ids=["planted modules", "the test's name", "a folder named", "the tree named"],
)
async def test_neither_what_it_plants_nor_what_it_is_told_helps_the_tree(
    workshop: Any, code: CodeVerifier, tmp_path: Path, tree: dict[str, str], tests: dict[str, Any]
) -> None:
    found = await verdict(workshop, code, tmp_path, tree, verifier(**tests))
    assert (found.certain, found.reward_type) == (True, "incomplete"), found


async def test_the_tree_tells_errors_and_ends_in_time(workshop: Any, code: CodeVerifier, tmp_path: Path) -> None:
    text = """
import pytest
import workspace
@pytest.mark.parametrize("where, named, kind", [
    ("sums:broken", {}, "ValueError"), ("sums:none", {}, "AttributeError"), ("other:x", {}, "ModuleNotFoundError"),
    ("sums:ends", {}, "NoResult"), ("sums:strange", {}, "TypeError"), ("sums:waits", {"seconds": 0.5}, "Timeout"),
    ("sums:deep", {}, "RecursionError"),
])
def test_kind(where, named, kind):
    with pytest.raises(workspace.TreeError) as told:
        workspace.call(where, **named)
    assert told.value.kind == kind

def test_run():
    done = workspace.run("bash", "-c", "read x; echo $x; pwd; exit 3", stdin="in\\n")
    assert (done.returncode, done.stdout) == (3, "in\\n/workspace\\n")
    with pytest.raises(workspace.TreeError, match="NotStarted"):
        workspace.run("no-such-program")
"""
    tree = """
import os, time
def broken(): raise ValueError("no")
def ends(): os._exit(0)
def strange(): return {1, 2}
def waits(): time.sleep(100)
def deep(): return deep()
"""
    found = await verdict(workshop, code, tmp_path, {"sums.py": tree}, verifier(files={"test_kinds.py": text}))
    assert found.reward_type == "complete", found.log


async def test_nothing_of_the_tree_runs_while_tests_are_imported(
    workshop: Any, code: CodeVerifier, tmp_path: Path
) -> None:
    early = "import workspace\nEARLY = workspace.call('sums:total', [])\ndef test_one(): pass\n"
    found = await verdict(workshop, code, tmp_path, {"sums.py": RIGHT}, verifier(files={"test_early.py": early}))
    assert found.reward_type == "incomplete"
    assert found.value["tests"]["failed"][0].startswith("test_early.py")


async def test_tests_that_say_so_import_the_tree(workshop: Any, code: CodeVerifier, tmp_path: Path) -> None:
    judged = verifier(files={"test_sums.py": IN_PROCESS}, in_process=True)
    assert (await verdict(workshop, code, tmp_path / "right", {"sums.py": RIGHT}, judged)).reward_type == "complete"
    assert (await verdict(workshop, code, tmp_path / "wrong", {}, judged)).reward_type == "incomplete"
    alone = verifier(files={"test_sums.py": IN_PROCESS})
    assert (await verdict(workshop, code, tmp_path / "alone", {"sums.py": RIGHT}, alone)).reward_type == "incomplete"


COMPILE = f"""
import os, py_compile, sys
open("/tmp/right.py", "w").write({RIGHT!r})
place = "PLACE".replace("TAG", sys.implementation.cache_tag)
os.makedirs(os.path.dirname(place), exist_ok=True)
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile("/tmp/right.py", place, invalidation_mode=unchecked)
"""
BESIDE = "__pycache__/sums.TAG.pyc"
ASK = "import sums; print(sums.total([3]))"
SAYS = f"import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', '{ASK}']))"


BY_PROGRAM = """
import workspace
def test_total():
    assert workspace.run("python", "-c", "import sums; print(sums.total([3]))").stdout == "3\\n"
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (TESTS, BESIDE),
        (TESTS, "sums/__init__.pyc"),
        (BY_PROGRAM, BESIDE),
        (IN_PROCESS, BESIDE),
        (IN_PROCESS, "sums/__init__.pyc"),
    ],
    ids=["call", "call, a package", "run", "in process", "in process, a package"],
)
async def test_what_was_compiled_from_another_source_is_not_run(
    workshop: Any, code: CodeVerifier, tmp_path: Path, text: str, place: str
) -> None:
    in_process = text is IN_PROCESS
    judged = verifier(files={"test_sums.py": text}, in_process=in_process)
    async with workshop.playing({"sums.py": WRONG}, tmp_path) as player:
        await player.text("python", code=COMPILE.replace("PLACE", place))
        assert "b'3\\n'" in await player.text("python", code=SAYS)  # the agent's Python is deceived
        initial, final = player.environment.initial, await player.environment.snapshot(tmp_path)
        found = await code.verify(judged, initial, final, "done", About(variables={"n": 3}))
    assert (found.certain, found.reward_type) == (True, "incomplete"), found
    assert found.value["tests"]["failed"]


async def test_such_things_beside_a_solution_do_not_spoil_it(workshop: Any, code: CodeVerifier, tmp_path: Path) -> None:
    files = TRICKS["a conftest"] | TRICKS["pytest's settings"] | TRICKS["modules in the place of others"]
    found = await verdict(workshop, code, tmp_path, files | TRICKS["a plugin"] | {"sums.py": RIGHT})
    assert found.reward_type == "complete", found.log


async def test_a_verifier_sees_both_trees_and_what_tests_came_to(
    workshop: Any, code: CodeVerifier, tmp_path: Path
) -> None:
    text = """
import os, stat
def verify_both(initial_dir, final_dir, tests, trace, variables):
    before, after = (open(os.path.join(one, "sums.py")).read() for one in (initial_dir, final_dir))
    try:
        open(os.path.join(final_dir, "x"), "w")
        written = True
    except OSError:
        written = False
    good = before != after and tests["complete"] and not written and sorted(os.listdir(final_dir)) == ["new", "sums.py"]
    return {"result": "complete" if good else "others", "seen": [before, after, tests["passed"], variables]}
"""
    files = {"sums.py": RIGHT, "new/x": "x"}
    found = await verdict(workshop, code, tmp_path, files, verifier(text, "verify_both"))
    assert found.reward_type == "complete", found.log
    assert found.value["seen"][0] == WRONG


async def test_another_command_than_pytest_has_an_exit_status(
    workshop: Any, code: CodeVerifier, tmp_path: Path
) -> None:
    text = "def verify_exit(tests):\n    return {'result': str(tests['exit_status']), 'passed': tests['passed']}\n"
    judged = verifier(text, "verify_exit", command='cmp sums.py "$TESTS/sums.py"', files={"sums.py": RIGHT})
    found = await verdict(workshop, code, tmp_path, {"sums.py": RIGHT}, judged)
    assert (found.result, found.value["passed"]) == ("0", [])
    assert (await verdict(workshop, code, tmp_path, {}, judged)).result == "1"


async def test_no_agent_sees_the_tests(workshop: Any, code: CodeVerifier, tmp_path: Path) -> None:
    token = "only-in-the-hidden-tests"
    judged = verifier(files={"test_sums.py": TESTS + f"TOKEN = '{token}'\n"})
    async with workshop.playing({"sums.py": WRONG}, tmp_path) as player:
        into = tmp_path / "final"
        into.mkdir()
        final = await player.environment.snapshot(into)
        await code.verify(judged, player.environment.initial, final, "", About(variables={"n": 3}))
        told = await player.text(
            "bash", command="grep -rl only-in-the-[h]idden /workspace /tmp /data /quintain; ls /data"
        )
        assert told == "tmp\nworkspace\n[exit status 0]"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"files": {"test_a.py": "def test_("}}, "is not Python"),
        ({"files": {"helpers.py": "x = 1"}}, "hold no test"),
        ({"files": {"test_a.py": {"base64": "?"}}}, "neither text nor base64"),
    ],
)
async def test_tests_of_no_use_are_the_verifiers_fault(
    workshop: Any, code: CodeVerifier, tmp_path: Path, given: Any, words: str
) -> None:
    found = await verdict(workshop, code, tmp_path, {}, verifier(**given))
    assert (found.certain, found.failure_owner) == (False, "verifier")
    assert words in (found.reason or "")


class _Failing(ForkProvider):
    """A provider whose sandboxes cannot be had, or are lost so many times."""

    def __init__(self, provider: ForkProvider, error: Exception, lost: int = 0) -> None:
        self._inner, self._error, self._lost = provider, error, lost

    async def template(self, *args: Any, **options: Any) -> Template:
        return await self._inner.template(*args, **options)

    async def claim(self, *args: Any, **options: Any) -> Any:
        if not self._lost:
            raise self._error
        sandbox = await self._inner.claim(*args, **options)
        self._lost -= 1
        sandbox.call = self._fail
        return sandbox

    async def _fail(self, *args: Any) -> Any:
        raise self._error


async def test_what_the_platform_fails_at_is_no_score(workshop: Any, code: CodeVerifier, tmp_path: Path) -> None:
    failing = _Failing(workshop.provider, SandboxError("no room"))
    judging = CodeVerifier(workshop.provider, verifier_class(20.0), tests=WorkspaceTests(failing, workspace_class()))
    found = await verdict(workshop, judging, tmp_path, {"sums.py": RIGHT})
    assert (found.certain, found.failure_owner, found.reason) == (False, "infrastructure", "no room")
    unequipped = CodeVerifier(workshop.provider, verifier_class(20.0))
    assert not (await verdict(workshop, unequipped, tmp_path, {"sums.py": RIGHT})).certain


@pytest.mark.parametrize("error", [SandboxLost("gone"), CallTimeout("late")])
async def test_a_sandbox_that_is_lost_twice_is_the_trees_doing(workshop: Any, tmp_path: Path, error: Exception) -> None:
    failing = _Failing(workshop.provider, error, lost=2)
    runner = WorkspaceTests(failing, workspace_class(), scratch=workshop.scratch)
    judging = CodeVerifier(workshop.provider, verifier_class(20.0), tests=runner)
    found = await verdict(workshop, judging, tmp_path, {"sums.py": RIGHT})
    assert (found.certain, found.reward_type) == (True, "incomplete")
    assert "ended twice" in found.value["tests"]["error"]


async def test_the_names_of_tests_are_read_from_their_source() -> None:
    text = "async def test_a(): ...\ndef helper(): ...\nclass Test:\n class TestIn:\n  def test_b(self): ...\n"
    files = {"in/test_x.py": text, "y_test.py": "def test_c(): ...\n", "other.py": "def test_d(): ...\n"}
    assert expected_tests(HiddenTests(files=files)) == [
        "in/test_x.py::test_a",
        "in/test_x.py::Test::TestIn::test_b",
        "y_test.py::test_c",
    ]
    with pytest.raises(VerifierError, match="is no path within a folder"):
        expected_tests(HiddenTests(files={"../test_x.py": text}))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"exit_status": "0"}, "what is not an answer"),
        ({"exit_status": 0, "reports": ["no json", "[]", '{"test": 3}', "[" * 10_000]}, "before all were run"),
        ({"exit_status": 0, "reports": ['{"finished": 0}']}, "not told to have passed: t.py::test_a"),
        ({"exit_status": 0, "reports": ['{"test": "t.py::test_a", "outcome": "passed", "when": "setup"}']}, "before"),
    ],
)
async def test_what_is_no_proof_is_none(answer: Any, words: str) -> None:
    told = outcome(answer, ["t.py::test_a"])
    assert (told["complete"], told["failed"]) == (False, ["t.py::test_a"])
    assert words in told["error"]
