"""`quintain doctor` and `quintain version`."""

import json
import subprocess
from collections.abc import Callable

import pytest

import quintain as package

pytestmark = pytest.mark.xdist_group("cli-doctor")

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_the_report_for_programs(quintain: Command) -> None:
    done = quintain("doctor", "--json")
    report = json.loads(done.stdout)
    assert report["level"] in ("full", "reduced"), report
    assert done.returncode == 0
    reached = next(level for level in report["levels"] if level["level"] == report["level"])
    assert reached["reached"] is True
    assert {check["problem"] for check in reached["checks"]} == {""}
    assert {"files", "network", "processes", "secrets"} <= {check["area"] for check in reached["checks"]}
    assert report["facts"]["kernel"]
    assert report["interpreters"]
    if report["level"] == "full":
        assert report["lost"] == []


def test_a_level_that_is_none(quintain: Command) -> None:
    done = quintain("doctor", "--require", "absolute")
    assert done.returncode == 2
    assert "absolute" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version(quintain: Command) -> None:
    assert quintain("version").stdout.strip() == package.__version__
