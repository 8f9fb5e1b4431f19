"""Signals as hypothesis draws them."""

from hypothesis import strategies as st

from quintain.contracts.signals import Family, Producer, Signal, Signals

PRODUCER = Producer(name="test", version="1")


def numbers(least: float, most: float) -> st.SearchStrategy[float]:
    """Finite numbers of a range, whole ones among them."""
    whole = st.integers(int(least) + 1, int(most)).map(float)
    return st.floats(least, most, allow_nan=False, allow_infinity=False) | whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | numbers(-1e9, 1e9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

_VALUES: dict[Family, st.SearchStrategy[float | bool | None]] = {
    **{family: st.none() | st.booleans() | numbers(-1e9, 1e9) for family in Family},
    Family.SAFETY: st.sampled_from([True, True, True, False, None]),
}


@st.composite
def one_signal(draw: st.DrawFn, family: Family) -> Signal:
    return Signal(
        family=family,
        name=draw(st.sampled_from("abcd")),
        value=draw(_VALUES[family]),
        evidence=draw(st.dictionaries(st.text(max_size=8), JSON, max_size=3)),
        producer=PRODUCER,
    )


def some_signals(family: Family) -> st.SearchStrategy[list[Signal]]:
    """Signals of one family, each name once."""
    return st.lists(one_signal(family), max_size=3, unique_by=lambda signal: signal.name)


@st.composite
def signals(draw: st.DrawFn) -> Signals:
    """Any collection, with a verdict where an outcome signal has a value."""
    given = [one for family in Family for one in draw(some_signals(family))]
    certain = any(one.family is Family.OUTCOME and one.value is not None for one in given)
    words = ["complete", "complete", "incomplete", "invalid_args", "others", None]
    reward_type = draw(st.sampled_from(words)) if certain else None
    return Signals(reward_type=reward_type, signals=tuple(draw(st.permutations(given))))
