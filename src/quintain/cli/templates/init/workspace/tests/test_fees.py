"""Hidden tests, run on the final tree in a fresh sandbox; the tree's code runs in processes of its own."""

import workspace


def fee(days, rate, most):
    return workspace.call("fees:fee", days, rate, most)


def test_each_day_costs():
    assert fee(2, 10, 1000) == 20


def test_there_is_a_most():
    days = workspace.VARIABLES["days"]  # what the seed drew
    assert fee(days, 10, 50) == min(days * 10, 50)


def test_a_book_in_time_is_free():
    assert [fee(days, 10, 50) for days in (0, -1, -30)] == [0, 0, 0]
