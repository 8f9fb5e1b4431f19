"""Every snippet in the README and the docs that is marked `test` is run, in order, page by page.

A fence's info string marks it: `console test` holds `$ command` lines, each followed by its output, in which `...`
stands for anything; `python test` is a program, and a `text output` fence after it is what it prints. With `openenv`
in the mark the interpreter is the one that has the real client. Where a page speaks of `localhost:8899`, a server runs.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.preloaded import Preloaded
from served import ROOT, environment, peer, served

ADDRESS = "localhost:8899"
_PLAIN = re.compile(r"quintain( ([\w./:=,@%+-]+|'[^']*'|\"[^\"$`\\]*\"))+")
_FENCE = re.compile(r"^```(\w*)[ ]?([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """One marked fence: its language, the words after it, its text, and the output that the next fence promises."""

    language: str
    marks: frozenset[str]
    text: str
    output: str | None
    line: int


def snippets(text: str) -> list[Snippet]:
    """The fences marked `test`, in order."""
    fences = [
        (match[1], frozenset(match[2].split()), match[3], text[: match.start()].count("\n") + 1)
        for match in _FENCE.finditer(text)
    ]
    fences.append(("", frozenset(), "", 0))
    return [
        Snippet(language, marks, body, after[2] if "output" in after[1] else None, line)
        for (language, marks, body, line), after in pairwise(fences)
        if "test" in marks
    ]


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console fence, each with the output after it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts[0] == "", f"a console fence begins with a command, not with {parts[0]!r}"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]


def pattern(expected: str) -> re.Pattern[str]:
    """`...` in an expected output stands for anything, over lines too."""
    return re.compile(".*".join(map(re.escape, expected.strip().split("..."))), re.DOTALL)


PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
    if snippets(page.read_text())
]


@pytest.fixture(scope="module")
def url(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("snippets")
    with served(runtime_cache.parent, folder / "server.log", QUINTAIN_KEEP_DIR=str(folder / "kept")) as address:
        yield address


def test_there_are_pages_with_snippets() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/tutorial/first-episode.md", "docs/how-to/keep-files.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.timeout(300)
def test_snippets(
    page: Path,
    url: str,
    runtime_cache: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    preloaded: Preloaded,
) -> None:
    temporary = tmp_path_factory.mktemp("t")
    for snippet in snippets(page.read_text()):
        variables = environment(runtime_cache.parent, AWM_BASE_URL=url, TMPDIR=str(temporary))
        host = url.removeprefix("http://")
        if snippet.language == "python":
            program = [
                str(peer()) if "openenv" in snippet.marks else "python",
                "-c",
                snippet.text.replace(ADDRESS, host),
            ]
            _judge(_run(program, variables, tmp_path), snippet.output or "", f"{page}:{snippet.line}")
            continue
        assert snippet.language == "console", f"{page}:{snippet.line}: a {snippet.language} fence cannot be run"
        for command, output in commands(snippet.text):
            typed = command.replace(ADDRESS, host)
            if _PLAIN.fullmatch(typed):  # nothing in it that a shell would read
                done = preloaded.run(shlex.split(typed)[1:], tmp_path, variables, 120, together=True)
            else:
                done = _run(["bash", "-euo", "pipefail", "-c", typed], variables, tmp_path)
            _judge(done, output, f"{page}:{snippet.line}: {command}")


def _run(command: list[str], variables: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=variables, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def _judge(done: subprocess.CompletedProcess[str], expected: str, where: str) -> None:
    assert done.returncode == 0, f"{where} ended with {done.returncode}:\n{done.stdout}"
    if expected.strip():
        assert pattern(expected).fullmatch(done.stdout.strip()), f"{where} printed\n{done.stdout}\nand not\n{expected}"


def test_the_readmes_quick_start_is_the_example() -> None:
    shown = next(match[3] for match in _FENCE.finditer((ROOT / "README.md").read_text()) if match[1] == "python")
    example = (ROOT / "examples/quickstart.py").read_text().partition('"""\n\n')[2]
    assert shown == example


def test_the_marks_are_understood() -> None:
    console = "```console test\n$ echo one\none\n$ true\n```\n"
    unmarked = "\n```sh\nno\n```\n"
    program = "\n```python test\nx\n```\n\n```text output\ny\n```\n"
    first, second = snippets(console + unmarked + program)
    assert commands(first.text) == [("echo one", "one\n"), ("true", "")]
    assert (second.text, second.output) == ("x\n", "y\n")


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [("a ... c", "a b c", True), ("a\n...\nd", "a\nb\nc\nd", True), ("a", "b", False), ("a ...", "b a", False)],
)
def test_three_dots_stand_for_anything(expected: str, found: str, same: bool) -> None:
    assert bool(pattern(expected).fullmatch(found)) is same
