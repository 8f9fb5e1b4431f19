"""The ledger in memory answers as the ledger on disk does, whatever it is asked in whatever order."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quintain.errors import UsageError
from quintain.records import MAX_ATTEMPT, Ledger, MemoryLedger, ScoreLedger
from records.making import digest
from records.test_model import KEYS, SUBMISSIONS

ASKED = st.one_of(
    st.tuples(st.just("submit"), SUBMISSIONS),
    st.tuples(st.just("score"), KEYS),
    st.tuples(st.just("episode_score"), st.builds(digest, st.integers(1, 2)), st.sampled_from("ab"), st.integers(0, 3)),
    st.tuples(st.just("next_attempt"), st.builds(digest, st.integers(1, 2)), st.sampled_from("ab")),
    st.tuples(
        st.just("claim_attempt"), st.builds(digest, st.integers(1, 2)), st.sampled_from("ab"), st.integers(0, 12)
    ),
)


async def answers(ledger: ScoreLedger, asked: list[tuple[Any, ...]]) -> list[Any]:
    return [await getattr(ledger, name)(*arguments) for name, *arguments in asked]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(ASKED, max_size=25))
def test_it_answers_as_the_one_on_disk(tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[Any, ...]]) -> None:
    folder: Path = tmp_path_factory.mktemp("ledger")

    async def both() -> tuple[list[Any], list[Any]]:
        async with await Ledger.open(folder / "ledger.db") as ledger:
            return await answers(ledger, asked), await answers(MemoryLedger(), asked)

    on_disk, in_memory = asyncio.run(both())
    assert in_memory == on_disk


async def test_the_last_number_there_is_has_none_after_it() -> None:
    ledger = MemoryLedger()
    await ledger.claim_attempt(digest(1), "m", MAX_ATTEMPT)
    with pytest.raises(UsageError, match="last there is"):
        await ledger.next_attempt(digest(1), "m")
