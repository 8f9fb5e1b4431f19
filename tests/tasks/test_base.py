"""Task policies: sets of names, with a digest of what they say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quintain.tasks import TaskPolicy

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), max_size=5)
POLICIES = st.builds(TaskPolicy, writable_tables=st.none() | NAMES.map(tuple), forbidden_tools=NAMES.map(tuple))


@given(POLICIES, st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(policy: TaskPolicy, random: Any) -> None:
    said = policy.model_dump(mode="json")
    for names in said.values():
        if names:
            names.append(random.choice(names))
            random.shuffle(names)
    again = TaskPolicy.model_validate(said)
    assert (again, again.digest) == (policy, policy.digest)
    assert TaskPolicy.model_validate_json(policy.model_dump_json()) == policy


@given(POLICIES, POLICIES)
def test_what_says_something_else_has_another_digest(one: TaskPolicy, other: TaskPolicy) -> None:
    assert (one.digest == other.digest) is (one == other)
    more = one.model_copy(update={"writable_tables": (*(one.writable_tables or ()), "one more, longer than any")})
    assert more.digest != one.digest


def test_to_declare_nothing_is_not_to_allow_nothing() -> None:
    assert TaskPolicy().writable_tables is None
    assert TaskPolicy().digest != TaskPolicy(writable_tables=()).digest


@pytest.mark.parametrize("said", [{"writable_tables": ["x" * 257]}, {"forbidden_tools": None}, {"max_steps": 3}])
def test_what_is_no_policy_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TaskPolicy.model_validate(said)
