import pytest
from cargo.rates import STEPS, rate


def test_rates():
    assert rate(1) == STEPS[0][1]
    assert rate(STEPS[1][0] + 1) == STEPS[2][1]


def test_limits():
    with pytest.raises(ValueError, match="kg"):
        rate(0)
    with pytest.raises(ValueError, match="kg"):
        rate(STEPS[-1][0] + 1)
