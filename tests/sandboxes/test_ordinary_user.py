"""What an ordinary user gets; the tests beside this one run as whoever runs the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ordinary_user import run_as_user

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the tests are already run by an ordinary user"),
    pytest.mark.xdist_group("conformance"),
]
_ROOT = Path(__file__).resolve().parents[2]
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def _needed(*more: Path) -> list[Path]:
    return [Path(sys.base_prefix), Path(sys.prefix), _ROOT, *([_PYENV] if _PYENV.is_dir() else []), *more]


def test_the_conformance_suite_passes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    suite = str(_ROOT / "tests/sandboxes/test_conformance.py")
    done = run_as_user(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(home / "tmp"), suite],
        _needed(), home, {"PYENV_ROOT": str(_PYENV), "TMPDIR": str(home)}, 110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_the_demo_solves_its_tasks_at_full_isolation(runtime_cache: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "QUINTAIN_CACHE_DIR": str(runtime_cache.parent)}
    subprocess.run([sys.executable, "-m", "quintain.cli.main", "prepare"], env=environment, check=True)
    home = tmp_path / "home"
    (home / "cache").mkdir(parents=True, mode=0o777)
    (home / "cache").chmod(0o777)
    (home / "cache" / "runtimes").symlink_to(runtime_cache)
    done = run_as_user(
        [sys.executable, "-m", "quintain.cli.main", "demo", "--json", "--isolation", "full", "--tasks", "5",
         "--attempts", "1"],
        _needed(runtime_cache), home,
        {"QUINTAIN_CACHE_DIR": str(home / "cache"), "PYENV_ROOT": str(_PYENV), "TMPDIR": str(home)}, 110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    told = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert told["problems"] == []
    assert told["reference"] == {"tasks": 5, "complete_tasks": 5, "attempts": 5, "complete": 5}
