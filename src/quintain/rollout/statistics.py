"""The few statistics that a run's report needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Z_95: Final = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of a proportion, and how many independent tries would give one as wide."""

    low: float
    high: float
    effective: float


def wilson(passed: float, tried: float, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927); 0 to 1 where nothing was tried.

    It takes the tries for independent, which attempts at the same task are not: over several tasks it is too narrow.
    """
    if tried <= 0:
        return 0.0, 1.0
    share, square = passed / tried, z * z
    centre = (share + square / (2 * tried)) / (1 + square / tried)
    half = z * math.sqrt(share * (1 - share) / tried + square / (4 * tried * tried)) / (1 + square / tried)
    return (0.0 if passed == 0 else centre - half), (1.0 if passed == tried else centre + half)


def clustered(clusters: Sequence[tuple[int, int]]) -> Interval:
    """A 95 % interval of a proportion whose tries come in clusters, such as the attempts at one task.

    It is Wilson's with the number of tries that the clusters leave: all of them over the design effect, which is the
    variance between clusters over that of independent tries, and at least 1; the quantile is Student's with one
    degree of freedom less than there are clusters (Korn and Graubard 1998; Dean and Pagano 2015). Where all passed, or
    none, the tries of a cluster count as one. Of a single cluster it is Wilson's own, and speaks of that cluster alone.

    Args:
        clusters: passed and tried of each.
    """
    counted = [(passed, tried) for passed, tried in clusters if tried > 0]
    passed, tried = sum(one for one, _ in counted), sum(one for _, one in counted)
    if len(counted) < 2:
        return Interval(*wilson(passed, tried), float(tried))
    effective = _effective(counted, passed, tried)
    low, high = wilson(passed / tried * effective, effective, student_95(len(counted) - 1))
    return Interval(0.0 if passed == 0 else low, 1.0 if passed == tried else high, effective)


def _effective(counted: Sequence[tuple[int, int]], passed: int, tried: int) -> float:
    if passed in (0, tried):
        return tried**2 / float(sum(size * size for _, size in counted))
    share, many = passed / tried, len(counted)
    between = many / (many - 1) * sum((one - size * share) ** 2 for one, size in counted) / tried**2
    return tried / max(1.0, between / (share * (1 - share) / tried))


def student_95(freedom: int) -> float:
    """The quantile of Student's t that 95 % lie within on both sides (Abramowitz and Stegun 26.7.5)."""
    if freedom == 1:
        return math.tan(0.475 * math.pi)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, n = Z_95, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (number + 1) for number, term in enumerate(terms))
