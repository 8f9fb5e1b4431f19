"""Run hidden tests with pytest: `python -s -P run_tests.py REPORTS TREE TESTS IN_PROCESS [arguments of pytest]`.

What an agent wrote runs in processes of its own (see `outside`), which find no file of the tests: they are removed when
pytest has read them. With IN_PROCESS 1 tests import the tree themselves, which then is the last place of imports.
None of the tree's configuration is read. What each test came to is written to the descriptor REPORTS, a line of JSON
each; the last line says that all were run.
"""

import ctypes
import importlib.util
import json
import os
import shutil
import sys
from types import ModuleType

_PR_SET_DUMPABLE = 4


class Reporter:
    """Writes what tests came to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def tell(self, **line: object) -> None:
        """One line."""
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def pytest_collectreport(self, report: object) -> None:
        """A file that could not be imported."""
        if report.failed:  # type: ignore[attr-defined]
            self.tell(test=report.nodeid, outcome="error", when="collect")  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: object) -> None:
        """Setup, call or teardown of a test."""
        self.tell(test=report.nodeid, outcome=report.outcome, when=report.when)  # type: ignore[attr-defined]


class Apart:
    """Keeps the tests and the tree's code apart."""

    def __init__(self, tree: str, tests: str, outside: ModuleType) -> None:
        self._tree = tree
        self._tests = tests
        self._outside = outside
        self._path = list(sys.path)

    def pytest_collection(self) -> None:
        """Arguments have been understood, in the tests' folder; tests find themselves in the tree's."""
        os.chdir(self._tree)

    def pytest_collection_finish(self) -> None:
        """All have been imported: their files go, and nothing is imported from what may lie there later."""
        sys.path[:] = self._path
        sys.path_importer_cache.clear()
        shutil.rmtree(self._tests)
        os.mkdir(self._tests)  # pytest ends where it began
        self._outside._ready = True


def main() -> int:
    """Run them; the exit status is pytest's."""
    descriptor, tree, tests, in_process = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "1"
    os.set_inheritable(descriptor, False)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # what the tree's code knows of this process is its number
    child, outside = _beside("child.py", "child"), _outside(tree, tests, in_process)
    outside.COMPILED = child.COMPILED  # type: ignore[attr-defined]
    import pytest

    plugins: list[object] = [Reporter(descriptor)]
    own = ["-c", os.devnull, "--rootdir", tests, "--confcutdir", tests, "-p", "no:cacheprovider", "--color=no"]
    child.only_sources()  # type: ignore[attr-defined]
    if in_process:
        os.chdir(tree)
        sys.path[:] = [*sys.path, tree]
        os.environ["PYTHONPYCACHEPREFIX"] = child.COMPILED  # type: ignore[attr-defined]
        outside._ready = True  # type: ignore[attr-defined]
    else:
        os.chdir(tests)
        plugins.append(Apart(tree, tests, outside))
    status = int(pytest.main([*own, *sys.argv[5:], tests], plugins=plugins))
    plugins[0].tell(finished=status)  # type: ignore[attr-defined]
    return status


def _outside(tree: str, tests: str, in_process: bool) -> ModuleType:
    """The module `workspace`; what it holds for tests is no longer in the environment of what they start."""
    module = _beside("outside.py", "workspace")
    module.TREE = tree  # type: ignore[attr-defined]
    variables = os.environ["VARIABLES"] if in_process else os.environ.pop("VARIABLES")
    module.VARIABLES.update(json.loads(variables))
    if not in_process:
        del os.environ["TESTS"]
    for folder, _, names in os.walk(tests):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                module.FILES[os.path.relpath(file.name, tests)] = file.read()
    sys.modules["workspace"] = module
    return module


def _beside(file: str, name: str) -> ModuleType:
    """A module of this folder, which is no place of imports here."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
