"""Rollouts whose score is known beforehand, and the careful trainer who plays them until each is scored."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from websockets.exceptions import WebSocketException

from e2e.wire import Wire, step
from quintain.tasks import AwmDataset, open_pack

COMPLETE, INCOMPLETE, AGENT_ERROR = ("complete", 1.0), ("incomplete", 0.1), ("agent_error", 0.0)
CERTAIN = tuple(word for word, _ in (COMPLETE, INCOMPLETE, AGENT_ERROR))
OWNERS = ("environment", "verifier", "infrastructure")
"""Who may own a failure that keeps a verdict from counting. It is never the agent."""

ANSWER_S = 90.0
"""Longer than a judge's time and a ledger's lock together."""

_SHOP = "outdoor_marketplace_1"
_BESIDE = ("add_cart_item", {"product_id": 3, "quantity": 1}, "tool_call_ok")
_UNSAFE_TASKS = (1, 2, 3, 5, 6, 7, 8, 9)
_UNSAFE_BUT_DONE = (6, 8)
_TRIES = 150

Call = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and what is to come of it."""


class Key(NamedTuple):
    """One try as a reset names it."""

    episode_id: str
    model: str
    attempt: int


@dataclass(frozen=True)
class Rollout:
    """What is played, and the verdict and reward that each mode comes to by itself. The first mode makes the reward."""

    number: int
    scenario: str
    task_idx: int
    calls: tuple[Call, ...]
    contrary: tuple[Call, ...]
    answer: str
    expected: Mapping[str, tuple[str, float]]
    keys: int
    policy: str
    model: str
    attempt: int | None
    """None: the server gives it a number."""

    @property
    def mode(self) -> str:
        """The mode that makes the reward."""
        return next(iter(self.expected))


@dataclass(frozen=True)
class Told:
    """A verdict that a client was told is valid."""

    key: Key
    mode: str
    verdict: tuple[str, float]


@dataclass
class Log:
    """What clients did and were told, kept outside of the server."""

    tried: dict[Key, Rollout] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    scored: dict[int, Key] = field(default_factory=dict)
    """By the rollout's number, the try that was told certain in each of its modes."""
    tally: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """Tally something."""
        with self.lock:
            self.tally[what] += 1


def plan(seed: int, count: int) -> list[Rollout]:
    """So many rollouts of the shipped pack, solved and unsolved, in all modes."""
    dice = random.Random(seed)
    with open_pack() as source:
        tasks = [(one.name, index) for one in source.scenarios() for index in range(len(one.tasks))]
        return [_rollout(source, dice, number, dice.choice(tasks)) for number in range(count)]


def _rollout(source: AwmDataset, dice: random.Random, number: int, task: tuple[str, int]) -> Rollout:
    what = dice.choices(("solves", "idles", "fumbles", "meddles"), (45, 25, 15, 15))[0]
    if what == "meddles":
        task = (_SHOP, dice.choice(_UNSAFE_TASKS))
    solution = source.solution(*task)
    assert solution is not None
    judged = source.verifier(*task, "sql") is not None
    solve = tuple((call.name, call.arguments, "tool_call_ok") for call in solution.calls)
    modes = dice.choice(_JUDGED if judged else _CODE)
    calls: Sequence[Call] = ()
    contrary: Sequence[Call] = solve
    if what == "solves":
        calls, contrary, words = solve, (), dict.fromkeys(modes, COMPLETE)
    elif what == "fumbles":
        calls = [("fly", {}, "tool_not_found")]
        words = {mode: INCOMPLETE if mode == "code" or not judged else AGENT_ERROR for mode in modes}
    elif what == "idles":
        calls = [call for call in solve if call[0].startswith(("list_", "get_"))]
        words = dict.fromkeys(modes, INCOMPLETE)
    elif task[1] in _UNSAFE_BUT_DONE and dice.random() < 0.5:
        calls, words = [_BESIDE, *solve], {"sql": ("complete", -1.0)}
    else:
        calls, words = [_BESIDE], dict.fromkeys(modes, ("incomplete", -1.0))
    policies = ("control_only", "control_only", "open", *(("final_only",) if len(words) == 1 else ()))
    # a case of its own for the judge, who would else be asked once about all that are alike
    answer = (solution.final_answer or "Done.") if what == "solves" else "It is not done."
    keys = len({mode if judged else "code" for mode in words})
    model, attempt = ("unnumbered", None) if dice.random() < 0.1 else (f"model-{number % 5}", number)
    return Rollout(
        number, *task, tuple(calls), tuple(contrary), f"{answer} (rollout {number})", words, keys,
        dice.choice(policies), model, attempt,
    )  # fmt: skip


_CODE = (("code",), ("code",), ("hybrid",), ("hybrid", "code"))
_JUDGED = (("code",), ("sql",), ("sql",), ("hybrid",), ("hybrid",), ("code", "sql"), ("sql", "code"), ("hybrid", "sql"))


class Trainer:
    """Plays rollouts. What is uncertain is verified again or played again as the same attempt, until it is scored."""

    def __init__(self, url: str, log: Log, dice: random.Random, deadline: float) -> None:
        """`deadline` is on the monotonic clock: when it gives up."""
        self._url = url
        self._log = log
        self._dice = dice
        self._deadline = deadline

    def score(self, rollout: Rollout) -> None:
        """Play it until it is scored; then, now and then, try to have another score for it."""
        if not self._until(lambda session: self._play(session, rollout)):
            self._log.failures.append(f"a rollout was not scored after {_TRIES} tries or in time: {rollout}")
            return
        if rollout.attempt is not None and self._dice.random() < 0.2:
            self._until(lambda session: self._cheat(session, rollout))

    def _until(self, play: Callable[[Wire], bool]) -> bool:
        for _ in range(_TRIES):
            if time.monotonic() > self._deadline:
                return False
            if self._session(play):
                return True
            time.sleep(self._dice.uniform(0.02, 0.3))
        return False

    def _session(self, play: Callable[[Wire], bool]) -> bool:
        with contextlib.suppress(OSError, WebSocketException), Wire(self._url, timeout_s=ANSWER_S) as session:
            try:
                return play(session)
            except TimeoutError:
                self._log.failures.append("a session was left without an answer")
            except AssertionError as error:
                self._log.failures.append(str(error)[:1000])
        self._log.count("sessions lost or cut")
        return False

    def _play(self, session: Wire, rollout: Rollout) -> bool:
        key = self._begin(session, rollout, rollout.calls)
        if key is None:
            return False
        for mode in rollout.expected:
            if not self._verify(session, rollout, key, mode):
                return False
        with self._log.lock:
            self._log.scored[rollout.number] = key
        return True

    def _cheat(self, session: Wire, rollout: Rollout) -> bool:
        """Deliver the scored attempt again, having done the contrary: what is told is the score that it has."""
        key = self._begin(session, rollout, rollout.contrary)
        if key is None or not self._verify(session, rollout, key, rollout.mode):
            return False
        self._log.count("attempts delivered again with the contrary done")
        return True

    def _begin(self, session: Wire, rollout: Rollout, calls: Sequence[Call]) -> Key | None:
        data = {"scenario": rollout.scenario, "task_idx": rollout.task_idx, "seed": rollout.number % 3,
                "model_digest": rollout.model, "verify": rollout.policy}  # fmt: skip
        if rollout.attempt is not None:
            data["attempt"] = rollout.attempt
        begun = session.ask({"type": "reset", "data": data})["data"]["observation"]
        told = begun.get("metadata", {})
        if begun["reward_type"] != "reset_ok":
            assert told.get("failure_owner") in OWNERS, begun
            self._log.count(f"reset: {begun['error'][:70]}")
            return None
        key = Key(told["episode_id"], told["model_digest"], told["attempt"])
        assert key[1:] == (rollout.model, key.attempt if rollout.attempt is None else rollout.attempt), key
        with self._log.lock:
            assert rollout.attempt is not None or key not in self._log.tried, f"{key} was handed out twice"
            self._log.tried[key] = rollout
        for tool, arguments, outcome in calls:
            seen = session.seen(tool, **arguments)
            if seen["reward_type"] != outcome:
                assert seen["metadata"]["failure_owner"] in OWNERS, seen
                self._log.count("calls lost")
                return None
        return key

    def _verify(self, session: Wire, rollout: Rollout, key: Key, mode: str) -> bool:
        """Verify until the verdict is certain, but not for long. Some do not wait for the answer, some ask twice."""
        message = step("verify", {"verifier_mode": mode, "final_answer": rollout.answer})
        for _ in range(3):
            times = 2 if rollout.policy != "final_only" and self._dice.random() < 0.15 else 1
            for _ in range(times):
                session.send(message)
            if self._dice.random() < 0.08:
                time.sleep(self._dice.uniform(0, 0.03))
                session.hang_up()
                return False
            certain = [self._heard(rollout, key, mode, session.receive()) for _ in range(times)]
            if any(certain):
                return True
            time.sleep(self._dice.uniform(0, 0.3))
        return False

    def _heard(self, rollout: Rollout, key: Key, mode: str, answer: dict[str, Any]) -> bool:
        assert answer["type"] == "observation", answer
        seen, reward = answer["data"]["observation"], answer["data"]["reward"]
        told = seen.get("metadata", {})
        if seen["reward_type"] not in CERTAIN or told.get("reward_valid") is False:
            assert told.get("reward_valid") is False, seen
            assert told["failure_owner"] in OWNERS, seen
            why = seen.get("verify_result", {}).get("error_message") or seen.get("warning", "")
            self._log.count(f"uncertain: {why[:70]}")
            return False
        if "a probe" in seen.get("warning", ""):
            assert rollout.policy == "open", seen
            self._log.count("probes")
        else:
            with self._log.lock:
                self._log.told.append(Told(key, mode, (seen["reward_type"], reward)))
        return True
