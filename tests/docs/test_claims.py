"""What the README promises has a test that keeps it: the table is `claims.md`; a renamed or removed test fails here."""

import re
import subprocess
import sys

import pytest

from served import ROOT

ROWS = re.findall(r"^\| (.+) \| (tests/\S+) \|$", (ROOT / "tests/docs/claims.md").read_text(), re.MULTILINE)


def test_there_are_claims() -> None:
    assert len(ROWS) >= 25


def test_the_readme_still_says_so() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split()).lower()
    assert [claim for claim, _ in ROWS if claim.lower() not in readme] == []


@pytest.fixture(scope="module")
def collected() -> set[str]:
    files = sorted({name.partition("::")[0] for _, name in ROWS})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {line.strip() for line in done.stdout.splitlines() if "::" in line}


def test_the_tests_are_there(collected: set[str]) -> None:
    names = collected | {re.sub(r"\[.*\]$", "", name) for name in collected}
    assert [name for _, name in ROWS if name not in names] == []
