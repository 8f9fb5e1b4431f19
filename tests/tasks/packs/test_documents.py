"""YAML read with lines, as YAML 1.2 has its scalars."""

import pytest

from quintain.tasks.packs import documents
from quintain.tasks.packs.documents import read_document


def read(text: str | bytes) -> documents.Document:
    return read_document(text if isinstance(text, bytes) else text.encode(), "some.yaml")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("2026-02-10", "2026-02-10"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-4", -4),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("'true'", "true"),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("<<", "<<"),
    ],
)
def test_plain_scalars_are_what_yaml_1_2_says(written: str, value: object) -> None:
    document = read(f"a: {written}")
    assert document.problems == ()
    assert document.value == {"a": value}
    assert type(document.value["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3", "some.yaml:3: a: stands twice"),
        ("a:\n  - b: 1\n    b: 2", "some.yaml:3: a[0].b: stands twice"),
        ("1: x", "some.yaml:1: key 1 is no text"),
        ("a: .inf", "some.yaml:1: a: .inf is no number"),
        ("a: 90071992547409930", "some.yaml:1: a: 90071992547409930 is over 2^53"),
        ("a: !!python/name:os.system", "has the tag"),
        ("a: *b", "*b names no anchor"),
        ("a: &x [*x]", "*x names no anchor"),
        ("a: [1", "some.yaml:2: not YAML"),
        ("a: 1\n---\nb: 2", "some.yaml:3: a second document"),
        (b"a: \xff", "not UTF-8"),
        ("[" * 60 + "]" * 60, "nest deeper"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str | bytes, told: str) -> None:
    problems = read(text).problems
    assert problems
    assert told in str(problems[0])


def test_all_problems_of_a_file_are_told() -> None:
    problems = read("a: 1\na: 2\n3: x\nb: .nan").problems
    assert [problem.line for problem in problems] == [2, 3, 4]


def test_an_alias_is_the_value_of_its_anchor() -> None:
    assert read("a: &x {b: [1, 2]}\nc: *x").value == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}


def test_aliases_cannot_multiply_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    (problem,) = read("\n".join(lines)).problems
    assert "values, aliases counted in full" in str(problem)


def test_a_file_over_its_size_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 10)
    (problem,) = read("a: 12345678901").problems
    assert "over 10" in str(problem)


def test_lines_are_those_of_the_keys() -> None:
    document = read("# words\na:\n  b: 1\n  c:\n    - d\n    - e: 2\n")
    assert document.problem(("a", "c", 1, "e"), "x").line == 6
    assert str(document.problem(("a", "c", 9, "f"), "x")) == "some.yaml:4: a.c[9].f: x"
