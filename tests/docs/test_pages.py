"""Pages as such: internal links resolve, generated tables are the source's, decisions are numbered and complete."""

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from quintain.server.settings import settings_table
from served import ROOT

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r"`((?:src|tests|docs|examples)/[\w./-]+)`")


def pages() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [ROOT / name for name in sorted(set(names)) if (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the forges make them."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub(lambda match: match[0].strip("`"), page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_internal_links_resolve(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    named = _SOURCE.findall(page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    reached, pending = set[Path](), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        pending += [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
    assert sorted(set(ROOT.glob("docs/**/*.md")) - reached) == []


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs/tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_tables_are_those_of_the_source(tables: ModuleType) -> None:
    filled = {page: tables.filled(page.read_text()) for page in tables.pages()}
    stale = [str(page.relative_to(ROOT)) for page, text in filled.items() if text != page.read_text()]
    assert stale == [], "run: python docs/tables.py"
    assert {name for text in filled.values() for name in re.findall(r"<!-- table: (\w+) -->", text)} == set(
        tables.TABLES
    )


def test_the_settings_table_is_the_one_in_the_reference() -> None:
    assert settings_table() in (ROOT / "docs/reference/settings.md").read_text()


def test_a_stale_table_is_replaced(tables: ModuleType) -> None:
    stale = "before\n<!-- table: limits -->\nold\n<!-- end -->\nafter\n"
    assert tables.filled(stale) == f"before\n<!-- table: limits -->\n{tables.limits()}\n<!-- end -->\nafter\n"


def test_decisions_are_numbered_and_complete() -> None:
    decisions = sorted(ROOT.glob("docs/adr/0*.md"))
    assert [page.name[:4] for page in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    for page in decisions:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. ")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert len(text.split()) < 320, f"{page.name} is longer than half a page"
    index = (ROOT / "docs/adr/README.md").read_text()
    assert all(f"({page.name})" in index for page in decisions)
