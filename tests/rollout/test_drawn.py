"""Drawing tasks: by seed alone, evenly over scenarios, each once."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.errors import UsageError
from quintain.rollout.plan import drawn

TASKS = [(name, index) for name, count in (("a", 10), ("b", 4), ("c", 1)) for index in range(count)]


@given(st.integers(0, len(TASKS)), st.integers(0, 2**53 - 1), st.randoms())
def test_a_draw_is_even_and_depends_on_the_seed_alone(count: int, seed: int, dice: random.Random) -> None:
    found = drawn(TASKS, count, seed)
    assert len(found) == len(set(found)) == count
    assert found == sorted(found)  # the order of the tasks
    shuffled = list(TASKS)
    dice.shuffle(shuffled)
    assert sorted(drawn(shuffled, count, seed)) == found
    counts, sizes = Counter(name for name, _ in found), Counter(name for name, _ in TASKS)
    open_ones = [counts[name] for name in sizes if counts[name] < sizes[name]]
    assert all(counts[name] <= min(open_ones, default=10) + 1 for name in sizes)


def test_a_larger_draw_holds_the_smaller_and_seeds_differ() -> None:
    draws = [set(drawn(TASKS, count, 7)) for count in range(len(TASKS) + 1)]
    assert all(small < large for small, large in pairwise(draws))
    assert len({tuple(drawn(TASKS, 6, seed)) for seed in range(20)}) > 10


def test_more_than_there_are_cannot_be_drawn() -> None:
    with pytest.raises(UsageError, match="16 tasks cannot be drawn of 15"):
        drawn(TASKS, 16, 0)
