"""What is refused because it would take too long, and that the bound of the work holds."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts import expression_cost, expressions
from quintain.contracts.expression_cost import MAX_WORK, work
from quintain.contracts.expression_patterns import MAX_PATTERN
from quintain.contracts.expression_syntax import MAX_DEGREE, syntax_of
from quintain.contracts.expression_values import checked
from quintain.contracts.expressions import Expression, filled
from quintain.errors import ExpressionError, Owner

FULL: dict[str, Any] = {"state": {"l": [str(n) for n in range(490)], "s": "x" * 100_000}}
"""What an agent's arguments can have made of a state."""


@pytest.mark.parametrize(
    "text",
    [
        "size([1]" + ".map(a, [a, a])" * 26 + ")",
        "[1]" + "".join(f" . map ( a{n} , [a{n}, a{n}] )" for n in range(8)),
        "(((([1].map(a, [a, a])).map(a, [a, a]))[0]).map(a, [a, a]).filter(a, true)).map(a, a)",
        "reverse(sort(reverse([1].map(a, [a])).map(a, [a])).map(a, [a])).map(a, a).map(a, a)",
        "[1].map(a, [a].map(b, [b].map(c, [c].map(d, [d].map(e, e)))))",
        "[[1].map(a, a)].map(a, a.map(b, b).map(c, c).map(d, d))",
        "[1].exists(a, [a].map(b, b) == [1].map(b, b).map(c, c).map(d, d).map(e, e))",
        "{'k': [1].map(a, a).map(a, a)}.k.map(a, a).map(a, a).map(a, a)",
        "(true ? [1].map(a, a).map(a, a) : []).map(a, a).map(a, a).map(a, a)",
        "[1].map(a, // why not\n [a, a]).map // here\n (a, a).map(a, a).map(a, a).map(a, a)",
    ],
)
def test_macros_that_work_upon_each_other_are_refused_when_an_expression_is_made(text: str) -> None:
    with pytest.raises(ExpressionError, match=f"macros work upon each other, nested or in a chain, over {MAX_DEGREE}"):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1].map((a), [a, a])", "with a plain name"),
        ("[1].map(.a, [a, a])", "with a plain name"),
        ("[1].filter(a)", "with a plain name"),
        (f"[{'1,' * 400}1].map(a, [{'a,' * 400}a])", "would take too long whatever it is given"),
        (f"['{'x' * 500}'].map(a, {'a + ' * 300}a).map(a, {'a + ' * 60}a)", "would take too long whatever"),
        (r"'a'.matches('(\\w{100}){10}')", "more than 20 times"),
        (f"'a'.matches('{'a' * 301}')", f"over {MAX_PATTERN}"),
    ],
)
def test_what_costs_too_much_whatever_it_is_given_is_refused_when_it_is_made(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "join(state.l.map(a, state.s))",
        "sort(state.l.map(a, state.l))",
        "state.l.map(a, state.s).map(b, size(b))",
        "state.l.map(a, [a, state.s])",
        "state.l.exists(a, state.s == state.s + 'x')",
        "size(join(state.l, state.s))",
        "size(state.s.split('').join(state.s))",
        "lowerAscii(state.s + state.s + state.s + state.s + state['s'])",
        "lastIndexOf(state.s, state.s + 'x')",
        "state.l.exists(a, state.s.contains(a + 'x')) || state.l.exists(a, lowerAscii(state.s) == a)",
        "[state.l + state.l].map(a, [a, a, a, a, a, a, a, a, a, a]).map(b, sort(b[0]))",
        "'a'.matches('^' + state.l[0] + '$') && state.l.exists(a, 'a'.matches(a))",
    ],
)
def test_what_would_take_too_long_on_what_it_is_given_is_refused_before_it_begins(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"would take too long on this state: it is given \d+ values"):
        Expression(text).value(FULL)


def test_it_is_the_environments_failure_and_names_its_place() -> None:
    with pytest.raises(ExpressionError) as caught:
        filled({"text": ["${join(state.l.map(a, state.s))}"]}, FULL, "then")
    assert caught.value.owner is Owner.ENVIRONMENT
    assert str(caught.value).startswith("then.text[0]: expression `join(state.l.map(a, state.s))`: would take too long")


def test_a_pattern_that_is_given_is_bounded_as_those_that_are_written() -> None:
    asked = Expression("s.matches(p)")
    assert asked.value({"s": "tea", "p": "^[a-z]+$"}) is True
    for pattern, told in (("a" * 20_000 + "b", "over 300"), (r"(\w{100}){10}", "more than 20 times")):
        with pytest.raises(ExpressionError, match=told):
            asked.value({"s": "a" * 100, "p": pattern})


ROWS: dict[str, Any] = {
    "rows": [{"id": f"R{n}", "name": f"row number {n}", "n": n, "tags": ["a", "b"]} for n in range(60)],
    "prices": {f"R{n}": n * 1.5 for n in range(60)},
    "notes": "x" * 20_000,
    "q": "row number 7",
}


@pytest.mark.parametrize(
    "text",
    [
        "rows.filter(r, r.id == 'R7')[0].name",
        "join(rows.filter(r, r.n > 50).map(r, r.name + ': ' + string(prices[r.id])), ', ')",
        "sum(rows.map(r, double(r.n) * prices[r.id])) > 1.0",
        "rows.exists(r, r.tags.exists(t, t == q))",
        "rows.all(r, r.id in prices && has(r.name))",
        "prices.map(k, prices[k]).sort()[0]",
        "distinct(rows.map(r, r.tags[0])).size()",
        "rows.map(r, r.n < 3, {'id': r.id, 'n': r.n})",
        "notes + q + notes",
        "size(notes) > 10 && notes.contains(q)",
        "rows.exists(r, lowerAscii(r.name).matches('^row [a-z]+ [0-9]+$'))",
        "rows + [{'id': 'R60', 'name': q, 'n': 60, 'tags': []}]",
    ],
)
def test_what_environments_ask_of_a_state_of_usual_size_is_not_refused(text: str) -> None:
    Expression(text).value(ROWS)


def test_the_work_of_a_small_state_is_measured_as_that_of_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the whole of a large state may only say less than measuring it does."""
    for text in ("rows.filter(r, r.n > 1)[0].id", "size(rows[0].tags)", "rows[0].name + notes"):
        syntax, sizes = syntax_of(text), checked(ROWS, 1)
        exact = work(syntax, ROWS, sizes)
        with monkeypatch.context() as patch:
            patch.setattr(expression_cost, "_LARGE", 0)
            patch.setattr(expression_cost, "MAX_WORK", 10**12)
            assert work(syntax, ROWS, sizes) >= exact - expression_cost._MEASURED * sizes.weight


def _texts(deep: int) -> st.SearchStrategy[str]:
    """Expressions that are texts, at most so deep."""
    leaves = st.sampled_from(["s", "t", "'ab,c'", "m.k", "rows[0].id", "string(n)"])
    if deep == 0:
        return leaves
    within, lists = _texts(deep - 1), _lists(deep - 1)
    return st.one_of(
        leaves,
        st.tuples(within, within).map(" + ".join).map("({})".format),
        st.tuples(lists, within).map(lambda two: f"join({two[0]}.map(x, string(x)), {two[1]})"),
        within.map("upperAscii({})".format),
        st.tuples(within, within).map(lambda two: f"(n > 2 ? {two[0]} : {two[1]})"),
    )


def _lists(deep: int) -> st.SearchStrategy[str]:
    """Expressions that are lists, at most so deep."""
    leaves = st.sampled_from(["l", "keys(m)", "rows", "rows[0].tags", "['a', 'b']", "s.split('')", "t.split(',')"])
    if deep == 0:
        return leaves
    within, texts = _lists(deep - 1), _texts(deep - 1)
    bodies = st.one_of(texts, within, st.sampled_from(["[x, x]", "x", "[x] + [x]", "{'k': x}", "[[x]]"]))
    return st.one_of(
        leaves,
        st.tuples(within, bodies).map(lambda two: f"{two[0]}.map(x, tick() ? {two[1]} : {two[1]})"),
        st.tuples(within, within).map(lambda two: f"{two[0]}.filter(x, tick() && size({two[1]}) > 0)"),
        st.tuples(within, within).map(lambda two: f"({two[0]} + {two[1]})"),
        st.tuples(bodies.filter(lambda one: "x" not in one), within).map(lambda two: f"[{two[0]}, {two[1]}]"),
        within.map("reverse({})".format),
        within.map("distinct({})".format),
        st.tuples(within, within).map(lambda two: f"[1].filter(x, tick() && {two[0]}.all(y, tick() && y in {two[1]}))"),
    )


_words = st.text(alphabet="ab, ", max_size=12)
_states = st.fixed_dictionaries(
    {
        "l": st.lists(_words, max_size=9),
        "s": _words,
        "t": _words,
        "n": st.integers(0, 9),
        "m": st.fixed_dictionaries({"k": _words}, optional={"j": _words, "i": _words}),
        "rows": st.lists(st.fixed_dictionaries({"id": _words, "tags": st.lists(_words, max_size=3)}), max_size=5),
    }
)


class Counter:
    """Work that was really done: rounds, and values that were handed to functions and back."""

    def __init__(self) -> None:
        self.work = 0

    def tick(self) -> bool:
        self.work += expression_cost._ROUND
        return True

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            self.work += expression_cost._ARGUMENT * sum(checked(one, 1).weight for one in given)
            found = function(*given)
            self.work += expression_cost._RETURNED * checked(found, 1).weight
            return found

        return counted


@given(text=st.one_of(_lists(3), _texts(3)), state=_states)
def test_no_expression_does_more_work_than_was_worked_out(text: str, state: dict[str, Any]) -> None:
    try:
        compiled = expressions._compiled(text)
    except ValueError:  # it is too long, or its macros work upon each other too often
        return
    bound = work(compiled.syntax, state, checked(state, 1))
    if bound > MAX_WORK:
        return
    counter = Counter()
    functions = {name: counter.counting(one) for name, one in compiled.functions.items()}
    context = compiled.context(state, {**functions, "tick": counter.tick})
    try:
        found = compiled.program.execute(context)
    except (ValueError, TypeError, RuntimeError, KeyError, IndexError):
        found = None
    assert counter.work <= bound
    assert checked(found, 1).weight * expression_cost._RESULT <= bound
