"""Expressions, and documents that are filled in with them."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts import expression_values
from quintain.contracts.expressions import Expression, expressions_in, filled
from quintain.errors import ExpressionError, Owner

GIVEN: dict[str, Any] = {
    "n": 3,
    "x": 1.5,
    "s": "tea",
    "ok": True,
    "none": None,
    "xs": [3, 1, 2],
    "m": {"b": 2, "a": 1},
    "rows": [{"id": "A", "n": 1}, {"id": "B", "n": 2}],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n * 10", 30),
        ("double(n) * x", 4.5),
        ("s + '}'", "tea}"),
        ("none == null", True),
        ("ok ? 'yes' : 'no'", "yes"),
        ("xs.map(i, i * n)", [9, 3, 6]),
        ("rows.filter(r, r.n > 1)[0].id", "B"),
        ("rows.exists(r, r.id == 'A') && !rows.all(r, r.n > 1)", True),
        ("rows.map(r, r.n > 1, r.id)", ["B"]),
        ("m.map(k, k)", ["a", "b"]),
        ("{'z': 1, 'y': [1.0]}", {"y": [1.0], "z": 1}),
        ("has(m.c) || 'a' in m", True),
        ("keys(m)", ["a", "b"]),
        ("sum(xs) + max(xs) - min(xs)", 8),
        ("xs.sort()", [1, 2, 3]),
        ("'b,a'.split(',').sort().join('-')", "a-b"),
        ("math.abs(-n)", 3),
        ("math.round(x)", 2.0),
        ("s.matches('^t[a-z]+$')", True),
        ("'.map(x, 1)' + s", ".map(x, 1)tea"),
        ("type(n) == int", True),
        ("r'\\d'", "\\d"),
    ],
)
def test_what_an_expression_comes_to(text: str, value: Any) -> None:
    found = Expression(text).value(GIVEN)
    assert found == value
    assert type(found) is type(value)
    assert not isinstance(value, dict) or list(found) == list(value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n * x", "No such overload"),
        ("n + 1.0", "CEL does not coerce"),
        ("nothing", "Undefined variable or function: 'nothing'"),
        ("m.c", "there is no key 'c'"),
        ("xs[7]", "index out of bounds"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + n", "overflow"),
        ("s.map(c, c)", "a macro goes through a list or a map, not str"),
        ("keys(n)", "keys need a map"),
        ("1.0 / 0.0", "no number that JSON has"),
        ("b'a'", "type bytes is no JSON value"),
        ("timestamp('2026-01-01T00:00:00Z')", "convert it, as with string(…)"),
        ("{1: 2}", "no string"),
        ("lists.range(1000000000)", "Undefined"),
    ],
)
def test_what_has_no_value_says_why_and_where(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text, "tasks.yaml: refund.text").value(GIVEN)
    assert str(caught.value).startswith(f"tasks.yaml: refund.text: expression `{text}`: ")
    assert told in str(caught.value)
    assert caught.value.owner is Owner.ENVIRONMENT


@pytest.mark.parametrize("text", ["", "1 +", "a b", "((1)", "'open", "[" * 40 + "]" * 40, "1+" * 1001 + "1", "a." * 3])
def test_what_is_no_expression_is_refused_when_it_is_made(text: str) -> None:
    with pytest.raises(ExpressionError, match="expression"):
        Expression(text)


def test_a_map_has_one_order_whatever_memory_it_lies_in() -> None:
    wide = {f"k{n}": n for n in range(30)}
    literal = "{" + ", ".join(f"'k{n}': {n}" for n in range(30)) + "}"
    for text in ("m.map(k, k)", f"{literal}.map(k, k)", "m.filter(k, m[k] > 2)"):
        assert len({tuple(Expression(text).value({"m": wide})) for _ in range(5)}) == 1


@pytest.mark.parametrize(
    ("text", "variables", "told"),
    [
        ("xs.map(x, xs.map(y, 1))", {"xs": [0] * 100}, "rounds"),
        ("xs.exists(x, xs.exists(y, xs.exists(z, false)))", {"xs": [0] * 100}, "rounds"),
        ("xs.filter(x, true)", {"xs": [0] * 2000}, "rounds"),
        ("[1, 2, 3].map(x, s.split(','))", {"s": ""}, "rounds"),
        ("s", {"s": "x" * 300_000}, "larger than"),
        ("xs", {"xs": [0] * 300_000}, "larger than"),
        ("s + s + s", {"s": "x" * 100_000}, "larger than"),
        ("n", {"n": 2**63}, "over 64 bits"),
        ("n", {"n": float("nan")}, "no number"),
        ("d", {"d": object()}, "no JSON value"),
    ],
)
def test_what_is_too_much_is_refused_before_it_costs(text: str, variables: dict[str, Any], told: str) -> None:
    with pytest.raises(ExpressionError, match=told):
        Expression(text).value(variables)


def test_what_an_expression_does_not_ask_for_may_be_of_any_size() -> None:
    assert Expression("n + 1").value({"n": 1, "other": "x" * 10**6, "odd": object()}) == 2


def test_a_deep_value_is_refused() -> None:
    deep: Any = 0
    for _ in range(expression_values.MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(ExpressionError, match="nest deeper"):
        Expression("d").value({"d": deep})


def test_an_expression_knows_the_variables_it_asks_for() -> None:
    assert Expression("rows.filter(r, r.id == s && type(n) == int && math.abs(x) > 1.0)").names == {
        "rows",
        "s",
        "n",
        "x",
    }


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ("${n}", 3),
        ("${x}", 1.5),
        ("${rows}", GIVEN["rows"]),
        ("n is ${n}", "n is 3"),
        ("${s}${n}", "tea3"),
        ("${x} ${ok} ${none}", "1.5 true null"),
        ("${2.0} pieces", "2 pieces"),
        ("a: ${rows[0]}", 'a: {"id":"A","n":1}'),
        ("${'}' + s} ${ {'k': n}.k }", "}tea 3"),
        ("$${n} costs $5 and $", "${n} costs $5 and $"),
        ("$$${n}", "$${n}"),
        ("plain", "plain"),
        ({"${n}": ["${n}", {"deep": "${s}"}], "b": None}, {"${n}": [3, {"deep": "tea"}], "b": None}),
    ],
)
def test_documents_are_filled_in(document: Any, value: Any) -> None:
    assert filled(document, GIVEN) == value


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"a": [{"b": "${nothing}"}]}, "start.a[0].b: expression `nothing`: Undefined"),
        ("${n", "start: `${n` is not closed"),
        ("${n} and ${s + '}", "not an expression"),
        ("${}", "start: expression ``: not an expression"),
    ],
)
def test_what_cannot_be_filled_in_names_its_place(document: Any, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        filled(document, GIVEN, "start")
    assert told in str(caught.value)


def test_all_expressions_of_a_document_are_found_with_their_places() -> None:
    found = list(expressions_in({"a": ["${n}", "x ${s} ${x}"], "b": {"c": "$${n}"}}, "doc"))
    assert [(one.text, one.where) for one in found] == [("n", "doc.a[0]"), ("s", "doc.a[1]"), ("x", "doc.a[1]")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=json_values)
def test_a_value_goes_through_an_expression_unchanged(value: Any) -> None:
    assert filled({"a": "${v}"}, {"v": value}) == {"a": value}
    assert filled("${[v][0]}", {"v": value}) == value


@given(text=st.text())
def test_a_text_that_is_escaped_comes_back(text: str) -> None:
    assert filled(text.replace("${", "$${"), {}) == text


@given(text=st.text(alphabet="ab1+-*.()[]{}'\"$, x\\n/|&?:!<>=r", max_size=60))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        Expression(text).value({"a": 1, "b": [1, 2], "x": "s", "n": {"r": 1}})
    except ExpressionError:
        pass


def test_cel_is_imported_with_the_first_expression_and_without_its_command_line() -> None:
    code = (
        "import sys, quintain.contracts.expressions as e; assert 'cel' not in sys.modules; "
        "e.Expression('1'); assert 'cel' in sys.modules; assert 'prompt_toolkit' not in sys.modules; "
        "import cel; assert cel.evaluate('1 + 1') == 2; import cel.cli"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
