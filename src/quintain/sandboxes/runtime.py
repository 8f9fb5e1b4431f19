"""A class's own interpreter environment: built once per dependency lock, never the platform's.

The newest suitable interpreter on the host is used (3.11 at least). Environments live under a cache directory and
are named by digest of lock and interpreter, so that two classes with one lock share one environment.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quintain.errors import RuntimeBuildError
from quintain.sandboxes import guard

OLDEST, NEWEST = (3, 11), (3, 14)
_PARTIAL = ".partial"
_PROBE = (
    "import json, sys, sysconfig, sqlite3, ssl, ctypes, venv; "
    "print(json.dumps([list(sys.version_info[:3]), sys.base_prefix, sys._base_executable or sys.executable, "
    "sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib'), sqlite3.sqlite_version, sys.implementation.name]))"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python on this host that was run and found whole (sqlite3, ssl, ctypes, venv import)."""

    executable: Path
    version: tuple[int, int, int]
    prefix: Path
    stdlib: Path
    sqlite_version: str

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class ClassRuntime:
    """An interpreter environment that holds exactly what a lock names."""

    interpreter: Interpreter
    root: Path
    lock_digest: str

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.root / "bin" / "python"

    def paths(self) -> list[Path]:
        """What a sandbox must see, read-only, to run it: the environment and the interpreter's own files."""
        prefix = self.interpreter.prefix
        if prefix in (Path("/usr"), Path("/")):  # the system's Python: its files, not all of /usr
            return [self.root, self.interpreter.executable.resolve(), self.interpreter.stdlib]
        return [self.root, prefix]


def find_interpreters() -> list[Interpreter]:
    """Suitable interpreters on this host, newest first. Each was run: a version shim that only exists is not one."""
    found: dict[Path, Interpreter] = {}
    for candidate in _candidates():
        interpreter = _probe(candidate)
        if interpreter is not None:
            found.setdefault(interpreter.executable.resolve(), interpreter)
    return sorted(found.values(), key=lambda one: one.version, reverse=True)


def choose_interpreter(setting: str | None = None) -> Interpreter:
    """The interpreter named by the setting, else the newest suitable one.

    Raises:
        RuntimeBuildError: none is suitable.
    """
    if setting:
        interpreter = _probe(Path(setting))
        if interpreter is None:
            raise RuntimeBuildError(
                f"QUINTAIN_RUNTIME_PYTHON={setting!r} is not a usable Python {_range()} with sqlite3, ssl and venv"
            )
        return interpreter
    for candidate in sorted(_candidates(), key=_rank, reverse=True):
        interpreter = _probe(candidate)  # most names tell the version, so that the first hit is the newest
        if interpreter is not None:
            return interpreter
    raise RuntimeBuildError(f"no usable Python {_range()} on this host; name one with QUINTAIN_RUNTIME_PYTHON")


def ensure_runtime(lock: Path, cache: Path, interpreter: Interpreter) -> ClassRuntime:
    """The environment of a lock, built now if it is not there yet. Safe when several processes ask at once.

    Raises:
        RuntimeBuildError: the cache cannot be written; or the installation failed, and the message carries the
            installer's last lines.
    """
    content = lock.read_bytes()
    try:
        return _ensured(lock, content, cache, interpreter)
    except OSError as error:
        raise RuntimeBuildError(
            f"the runtime of {lock.name} cannot be kept in {cache}: {error.strerror or error}; "
            "name another folder with QUINTAIN_CACHE_DIR"
        ) from error


def _ensured(lock: Path, content: bytes, cache: Path, interpreter: Interpreter) -> ClassRuntime:
    digest = hashlib.sha256(content + f"\n{interpreter.executable} {interpreter}".encode()).hexdigest()
    root = cache / f"{lock.name.split('.')[0]}-py{interpreter.version[0]}{interpreter.version[1]}-{digest[:16]}"
    runtime = ClassRuntime(interpreter, root, "sha256:" + hashlib.sha256(content).hexdigest())
    _sweep_partial(cache)
    if root.exists():
        return runtime
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{root.name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not root.exists():
            _build(lock, content, root, interpreter)
    return runtime


def _sweep_partial(cache: Path) -> None:
    """Remove what builds that were killed have left; a build that goes on holds its lock."""
    for partial in cache.glob(f"*{_PARTIAL}"):
        with (cache / f"{partial.name.removesuffix(_PARTIAL)}.lock").open("w") as guard:
            try:
                fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            shutil.rmtree(partial, ignore_errors=True)


def _build(lock: Path, content: bytes, root: Path, interpreter: Interpreter) -> None:
    partial = root.with_name(root.name + _PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    _run([str(interpreter.executable), "-I", "-m", "venv", "--without-pip", str(partial)], lock)
    if any(line.strip() and not line.lstrip().startswith(b"#") for line in content.splitlines()):
        python = str(partial / "bin" / "python")
        _run([*_installer(python), "--require-hashes", "-r", str(lock)], lock)
    partial.rename(root)


def _installer(python: str) -> list[str]:
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True).returncode == 0:
        return [*pip, "--python", python, "install", "--quiet", "--disable-pip-version-check", "--no-input",
                "--compile", "--only-binary", ":all:"]  # fmt: skip
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    raise RuntimeBuildError("neither pip nor uv is there to install a class runtime; install one of them")


def _run(command: list[str], lock: Path) -> None:
    # the thread that starts it waits for it, so that its end is the platform's
    done = subprocess.run(
        [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *command],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise RuntimeBuildError(f"building the runtime of {lock.name} failed: {' '.join(command[:4])} ...\n{tail}")


def _candidates() -> Iterator[Path]:
    names = [f"python{OLDEST[0]}.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)] + ["python3"]
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin"]
    for folder in dict.fromkeys(folders):
        for name in names:
            path = Path(folder) / name
            if path.exists():
                yield path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    for versions in (pyenv / "versions", uv):
        if versions.is_dir():
            yield from sorted(versions.glob("*/bin/python3"), reverse=True)
    yield Path(sys.executable)


def _rank(path: Path) -> tuple[tuple[int, ...], bool]:
    """The newest first; of one version programs before scripts: a version manager's are slow, and may lead nowhere."""
    return _named_version(path), not _is_script(path)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _named_version(path: Path) -> tuple[int, ...]:
    """The version that a path spells (`versions/3.13.0/bin/python3`, `python3.12`), or nothing."""
    found = re.findall(r"3\.(\d+)(?:\.(\d+))?", str(path))
    return tuple(int(number or 0) for number in found[-1]) if found else ()


def _probe(path: Path) -> Interpreter | None:
    try:
        done = subprocess.run([str(path), "-I", "-c", _PROBE], capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL)  # fmt: skip
        version, prefix, executable, stdlib, _, sqlite_version, name = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if name != "cpython" or not OLDEST <= tuple(version[:2]) <= NEWEST:
        return None
    return Interpreter(Path(executable), tuple(version), Path(prefix), Path(stdlib), sqlite_version)


def _range() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
