"""The corpus once more as an ordinary user, whose sandboxes have that user's own id."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from e2e.serving import COMMAND
from ordinary_user import run_as_user

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the tests are already run by an ordinary user"),
    pytest.mark.xdist_group("escapes-user"),
]
_ROOT = Path(__file__).resolve().parents[2]
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose name leaves room: the name of a local socket has no more than 107 bytes."""
    with TemporaryDirectory(prefix="q") as folder:
        yield Path(folder)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("chosen", "least"),
    [
        ("full and (as_a_tool or while_a_scenario)", 120),
        pytest.param("full", 200, marks=pytest.mark.soak),
        pytest.param("reduced", 200, marks=pytest.mark.soak),
    ],
    ids=["full but verifiers", "full", "reduced"],
)
def test_the_corpus_is_contained(runtime_cache: Path, short_path: Path, chosen: str, least: int) -> None:
    environment = {**os.environ, "QUINTAIN_CACHE_DIR": str(runtime_cache.parent)}
    subprocess.run([*COMMAND, "prepare"], env=environment, check=True, capture_output=True)
    home = short_path
    cache = home / "quintain-tests"
    cache.mkdir(parents=True)
    for folder in (home, cache):
        folder.chmod(0o777)
    (cache / "runtimes").symlink_to(runtime_cache)
    corpus = str(_ROOT / "tests/escapes/test_escapes.py")
    needed = [Path(sys.base_prefix), Path(sys.prefix), _ROOT, runtime_cache, *([_PYENV] if _PYENV.is_dir() else [])]
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(home / "t"), "-k", chosen]
    done = run_as_user(
        [sys.executable, "-m", "pytest", *options, corpus], needed, home,
        {"PYENV_ROOT": str(_PYENV), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home)}, 280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1].lstrip(",")) > least, done.stdout[-2000:]
