"""Hidden tests, run on the final tree in a fresh sandbox. What the seed drew is in $VARIABLES, as JSON."""

import json
import os

from fees import fee

DRAWN = json.loads(os.environ["VARIABLES"])


def test_each_day_costs():
    assert fee(2, 10, 1000) == 20


def test_there_is_a_most():
    assert fee(DRAWN["days"], 10, 50) == min(DRAWN["days"] * 10, 50)


def test_a_book_in_time_is_free():
    assert [fee(days, 10, 50) for days in (0, -1, -30)] == [0, 0, 0]
