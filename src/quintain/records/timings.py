"""Where the time of a store's episodes went, by start kind: the same figures as of a run and of a server."""

from typing import Final

from quintain.contracts.timing import NOT_STARTED, TTFI, Timing
from quintain.records.queries import Queries

_MOST: Final = 200
"""Most rows of one question: names of segments come out of sandboxes."""

_SPREAD: Final = f"""
SELECT coalesce(start_kind, '{NOT_STARTED}'), name, count(*), quantile_disc(ms, 0.5), quantile_disc(ms, 0.95)
FROM told WHERE ms IS NOT NULL GROUP BY ALL ORDER BY count(*) DESC, 1, min(place), 2 LIMIT {_MOST}
"""

_TOLD: Final = {
    TTFI: f"SELECT start_kind, '{TTFI}' AS name, ttfi_ms AS ms, 0 AS place FROM trajectories",
    "segments": """
    SELECT start_kind, one.key AS name, one.value AS ms, 0 AS place FROM (
        SELECT start_kind,
            unnest(map_entries(CAST(json_extract(record, '$.segments_ms') AS MAP(VARCHAR, DOUBLE)))) AS one
        FROM trajectories
    )""",
    "stages": """
    SELECT start_kind, stage AS name, 1000 * sum(gone) AS ms, min(place) AS place FROM (
        SELECT digest, start_kind, place, one.stage AS stage,
            lead(one.monotonic) OVER (PARTITION BY digest ORDER BY place) - one.monotonic AS gone
        FROM (
            SELECT digest, start_kind, unnest(stages) AS one, generate_subscripts(stages, 1) AS place FROM (
                SELECT digest, start_kind,
                    from_json(json_extract(record, '$.stages'), '[{"stage":"VARCHAR","monotonic":"DOUBLE"}]') AS stages
                FROM trajectories
            )
        )
    ) WHERE gone IS NOT NULL GROUP BY digest, start_kind, stage""",
}


def timings(queries: Queries) -> dict[str, tuple[Timing, ...]]:
    """How time to first instruction, the parts of the starts and the stages are spread, in milliseconds.

    Raises:
        StoreError: the table cannot be read.
    """
    found = {}
    for what, told in _TOLD.items():
        rows = queries.ask(f"WITH told AS ({told}) {_SPREAD}").rows
        found[what] = tuple(
            Timing(start_kind=kind, name=name, count=count, p50_ms=half, p95_ms=most)
            for kind, name, count, half, most in rows
        )
    return found
