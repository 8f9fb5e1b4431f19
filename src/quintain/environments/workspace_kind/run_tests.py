"""Run hidden tests with pytest: `python -s -P run_tests.py REPORTS TREE TESTS [arguments of pytest]`.

The tree, whose code an agent wrote, comes last among the places of imports, and none of its configuration is read.
What each test came to is written to the descriptor REPORTS, a line of JSON each; the last line says that all were run.
"""

import json
import os
import sys


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


def main() -> int:
    """Run them; the exit status is pytest's."""
    descriptor, tree, tests = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.set_inheritable(descriptor, False)
    import pytest

    reporter = Reporter(descriptor)
    own = ["-c", os.devnull, "--rootdir", tests, "--confcutdir", tests, "-p", "no:cacheprovider", "--color=no"]
    os.chdir(tree)
    sys.path[:] = [*sys.path, tree]
    status = int(pytest.main([*own, *sys.argv[4:], tests], plugins=[reporter]))
    reporter.tell(finished=status)
    return status


if __name__ == "__main__":
    sys.exit(main())
