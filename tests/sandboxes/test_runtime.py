"""Class runtimes: which interpreter, and an environment that holds exactly the lock."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.chaos import no_orphans
from e2e.serving import descendants
from quintain.errors import RuntimeBuildError
from quintain.sandboxes import runtime
from quintain.sandboxes.runtime import choose_interpreter, ensure_runtime, find_interpreters


@pytest.fixture
def empty_lock(tmp_path: Path) -> Path:
    lock = tmp_path / "empty.lock.txt"
    lock.write_text("# nothing\n")
    return lock


def test_the_newest_interpreter_is_chosen_and_each_found_one_runs() -> None:
    found = find_interpreters()
    assert found == sorted(found, key=lambda one: one.version, reverse=True)
    assert choose_interpreter().version[:2] == found[0].version[:2]
    for one in found:
        assert runtime.OLDEST <= one.version[:2] <= runtime.NEWEST
        assert subprocess.run([one.executable, "-c", "import sqlite3"], check=False).returncode == 0


def test_a_shim_that_does_not_run_is_not_an_interpreter(tmp_path: Path) -> None:
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    with pytest.raises(RuntimeBuildError, match="not a usable Python"):
        choose_interpreter(str(shim))


def test_a_shim_is_not_asked_where_there_is_a_program_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version manager's shim takes a while, if only to say that its version is not in use."""
    newest = find_interpreters()[0]
    shim = tmp_path / f"python{newest.version[0]}.{newest.version[1]}"
    shim.write_text(f"#!/bin/sh\ntouch '{tmp_path}/asked'\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{newest.prefix}/bin:{os.environ['PATH']}")
    assert choose_interpreter().version == newest.version
    assert not (tmp_path / "asked").exists()


def test_a_setting_names_the_interpreter() -> None:
    assert choose_interpreter(sys.executable).version == tuple(sys.version_info[:3])


def test_an_environment_is_built_once_by_many_at_a_time(tmp_path: Path, empty_lock: Path) -> None:
    interpreter = choose_interpreter(sys.executable)
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: ensure_runtime(empty_lock, tmp_path / "cache", interpreter), range(4)))
    assert len({one.root for one in built}) == 1
    made = subprocess.run([built[0].python, "-c", "import pip"], capture_output=True, check=False)
    assert b"No module named 'pip'" in made.stderr
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_a_lock_that_changed_is_another_environment(tmp_path: Path, empty_lock: Path) -> None:
    interpreter = choose_interpreter(sys.executable)
    first = ensure_runtime(empty_lock, tmp_path / "cache", interpreter)
    empty_lock.write_text("# nothing still\n")
    second = ensure_runtime(empty_lock, tmp_path / "cache", interpreter)
    assert first.root != second.root
    assert first.lock_digest != second.lock_digest


def test_a_lock_that_cannot_be_installed_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "broken.lock.txt"
    lock.write_text("surely-not-a-package==1.0 --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(RuntimeBuildError, match=r"broken\.lock\.txt"):
        ensure_runtime(lock, tmp_path / "cache", choose_interpreter(sys.executable))
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.is_dir() and not entry.match("*.partial")]


BUILDS = """
import sys
from pathlib import Path
from quintain.sandboxes.runtime import choose_interpreter, ensure_runtime
ensure_runtime(Path(sys.argv[1]), Path(sys.argv[2]), choose_interpreter(sys.executable))
"""


def test_a_build_that_is_killed_leaves_no_process_and_no_directory(tmp_path: Path, empty_lock: Path) -> None:
    """The installer waits for a package index that does not answer; then the platform is killed."""
    cache, other = tmp_path / "cache", tmp_path / "other.lock.txt"
    other.write_text(f"hanging==1.0 --hash=sha256:{'0' * 64}\n")
    with socket.create_server(("127.0.0.1", 0)) as index, no_orphans():
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        source = str(Path(runtime.__file__).parents[2])
        variables = {**os.environ, "PYTHONPATH": source, "PIP_INDEX_URL": url, "UV_INDEX_URL": url}
        command = [sys.executable, "-c", BUILDS, str(other), str(cache)]
        with subprocess.Popen(command, env=variables) as platform:
            index.settimeout(30)
            waiting, _ = index.accept()  # the installer has asked
            assert descendants(platform.pid)
            ensure_runtime(empty_lock, cache, choose_interpreter(sys.executable))
            assert list(cache.glob("*.partial")), "a build that goes on was swept"
            platform.send_signal(signal.SIGKILL)
        waiting.settimeout(5)
        while waiting.recv(4096):  # the question; then the installer has hung up, for it has ended
            pass
        waiting.close()
    ensure_runtime(empty_lock, cache, choose_interpreter(sys.executable))
    assert not list(cache.glob("*.partial"))


def test_a_cache_that_cannot_be_written_is_told_by_its_setting(tmp_path: Path, empty_lock: Path) -> None:
    (tmp_path / "file").touch()
    for cache in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        with pytest.raises(RuntimeBuildError, match="QUINTAIN_CACHE_DIR"):
            ensure_runtime(empty_lock, cache, choose_interpreter(sys.executable))
