"""`quintain` itself: what it says of commands that are misused or interrupted, and of what the host lacks."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.test_demo import WITHOUT_THE_EXTRA

pytestmark = pytest.mark.xdist_group("cli-main")

Command = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]

INTERRUPTED_AT = """
import sys

class Interrupted:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted)
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nosuch",), "no such command 'nosuch'; see `quintain --help`"),
        (("run", "--foo"), "no such option: --foo"),
        (
            ("run", "--isolation", "foo"),
            "invalid value for '--isolation': 'foo' is not one of 'full', 'reduced', 'none'",
        ),
        (("run", "--tasks", "0"), "see `quintain run --help`"),
        (("serve", "--port", "x"), "invalid value for '--port'"),
        (("serve", "more"), "(more); see `quintain serve --help`"),
        (("store", "query"), "missing argument"),
        (("store", "query"), "see `quintain store query --help`"),
        (("doctor", "--require", "foo"), "'foo' is no level; say full or reduced"),
    ],
)
def test_misuse_is_told_on_one_line(refused: Refused, arguments: tuple[str, ...], words: str) -> None:
    line = refused(*arguments)
    assert words in line
    assert "Value error" not in line


def test_without_a_command_it_shows_the_help(quintain: Command) -> None:
    for arguments in ((), ("store",)):
        done = quintain(*arguments)
        assert done.returncode == 2
        assert "Usage: quintain" in done.stdout
        assert done.stderr == ""


def test_the_version_is_a_command_and_an_option(quintain: Command) -> None:
    command, option = quintain("version"), quintain("--version")
    assert (option.returncode, option.stdout) == (0, command.stdout)
    assert command.stdout.strip()[0].isdigit()


@pytest.mark.parametrize("name", ["typer", "quintain.cli.episode", "pydantic", "quintain.episodes.assembly"])
def test_ctrl_c_while_modules_are_imported_is_no_traceback(quintain: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_AT.format(name=name))
    done = quintain("episode", "outdoor_marketplace_1", "0", "--solution", PYTHONPATH=str(tmp_path))
    assert done.returncode == 130, done
    assert done.stderr.splitlines() == ["quintain: interrupted"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("store", "stats"), ("store", "query", "SELECT 1"), ("store", "show", "abcd"), ("store", "verify"),
        ("store", "repair"), ("store", "export", "x.jsonl"), ("store", "ingest", "--once"), ("reverify", "--all"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_needs_the_extra_says_so(refused: Refused, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_THE_EXTRA)
    assert "pip install 'quintain[store]'" in refused(*arguments, PYTHONPATH=str(tmp_path))
    assert not (tmp_path / "x.jsonl").exists()


def test_a_cache_that_cannot_be_made(refused: Refused, tmp_path: Path, notes_pack: Path) -> None:
    (tmp_path / "file").touch()
    for arguments in (
        ("serve", "--port", "0"), ("prepare",), ("doctor",), ("demo", "--keep", "kept"), ("validate", "yard"),
        ("run", "--run-dir", "run"), ("episode", "outdoor_marketplace_1", "0"),
        ("scenarios", "list", "--awm-data", str(notes_pack)),
    ):  # fmt: skip
        place = str(tmp_path / "file")
        assert f"QUINTAIN_CACHE_DIR: {place} cannot be made" in refused(*arguments, QUINTAIN_CACHE_DIR=place)
    assert "/proc/nowhere cannot be made" in refused("serve", "--port", "0", QUINTAIN_CACHE_DIR="/proc/nowhere")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "kept").exists() or not any((tmp_path / "kept").iterdir())


def test_settings_that_are_wrong_are_told_once(refused: Refused, tmp_path: Path) -> None:
    line = refused("serve", "--port", "0", QUINTAIN_TOKEN_POOLS="foo")
    assert line.count("QUINTAIN_TOKEN_POOLS") == 1
    assert "'train', 'dev', 'regression' or 'blind'" in line
    two = refused("serve", "--port", "0", QUINTAIN_TOKEN_POOLS="foo", QUINTAIN_MAX_STARTING="0")
    assert "QUINTAIN_TOKEN_POOLS" in two
    assert "QUINTAIN_MAX_STARTING" in two
    assert "a finite number, got 'nan'" in refused("serve", "--port", "0", QUINTAIN_CALL_TIMEOUT="nan")


def test_a_damaged_tokens_file_is_all_that_is_told_of(quintain: Command, refused: Refused, tmp_path: Path) -> None:
    registry = str(tmp_path / "registry")
    assert quintain("tasks", "import", "--why", "to begin with", QUINTAIN_REGISTRY=registry).returncode == 0
    (tmp_path / "tokens.json").write_text("{")
    line = refused("serve", "--port", "0", QUINTAIN_REGISTRY=registry, QUINTAIN_TOKENS="tokens.json")
    assert line.startswith("quintain: QUINTAIN_TOKENS: tokens.json is not JSON")
