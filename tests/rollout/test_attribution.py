"""The table of causes is complete, and says the same as the errors themselves."""

from collections.abc import Iterator

from quintain.contracts.terminal import ENDINGS, TRUNCATED, TerminalReason
from quintain.contracts.turns import Ending, EndReason
from quintain.environments.base import ToolStatus
from quintain.errors import ContextOverflow, Owner, QuintainError, RateLimited
from quintain.records.index import LOST
from quintain.rollout.attribution import RETRIES, ROWS, TABLE, Retry, RewardValidity, of_error, of_verdict


def kinds(above: type[QuintainError] = QuintainError) -> Iterator[type[QuintainError]]:
    if above.__module__ == "quintain.errors":
        yield above
    for kind in above.__subclasses__():
        yield from kinds(kind)


def test_every_error_has_a_row_with_its_own_owner() -> None:
    for kind in kinds():
        row = TABLE[kind.__name__]
        assert row.owner is (None if kind is ContextOverflow else kind.owner), kind


def test_every_terminal_reason_every_ending_and_every_tool_status_has_a_row() -> None:
    assert set(TerminalReason) <= set(TABLE)
    assert set(ENDINGS) == set(EndReason)
    assert {f"tool call: {status}" for status in ToolStatus} <= set(TABLE)
    assert TerminalReason.RECORD_LOST == LOST


def test_an_ending_is_truncated_exactly_where_its_reason_is() -> None:
    for reason, terminal in ENDINGS.items():
        assert Ending(reason=reason).truncated == (terminal in TRUNCATED)


def test_a_cause_has_one_row_and_only_the_agent_pays() -> None:
    assert len(TABLE) == len(ROWS)
    assert set(RETRIES) == set(Retry)
    for row in ROWS:
        tool = row.cause.startswith("tool call")
        assert tool or (row.reward is RewardValidity.STANDS) == (row.owner in (None, Owner.AGENT)), row


def test_an_error_of_an_unknown_class_is_its_nearest_known_ones() -> None:
    class Odd(RateLimited):
        """Of somebody else's."""

    assert of_error(Odd("slow down")) is TABLE["RateLimited"]
    assert of_error(KeyError("x")).owner is Owner.INFRASTRUCTURE
    assert of_verdict(Owner.AGENT).owner is Owner.VERIFIER
    assert of_verdict(Owner.INFRASTRUCTURE).retry is Retry.VERIFY
