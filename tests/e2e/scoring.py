"""Rollouts played to their scores while verifiers, judge, database and server are taken away at random."""

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.chaos import left_behind, mounts, no_orphans
from e2e.ledger_audit import audit, submissions
from e2e.outages import DATABASE, JUDGE, SANDBOXES, Deployment, Hand, drawn, small_disk
from e2e.rollouts import Log, Rollout, Trainer, plan


class Run:
    """What was done, and what must not be."""

    def __init__(self, deployment: Deployment, rollouts: Sequence[Rollout], seed: int, clients: int, limit_s: float):
        """`limit_s` is for all rollouts together."""
        self.log = Log()
        self.deployment = deployment
        self.rollouts = rollouts
        self._seed = seed
        self._left = iter(rollouts)
        self._taking = threading.Lock()
        self._over = False
        deadline = time.monotonic() + limit_s
        self._clients = [
            threading.Thread(target=self._client, args=(random.Random(f"{seed}:{number}"), deadline), daemon=True)
            for number in range(clients)
        ]

    def play(self, *strikes: tuple[str, Sequence[str]]) -> None:
        """Play all rollouts; `strikes` are what each hand does, by the name of the deployment's method."""
        hands = [
            Hand(getattr(self.deployment, name), kinds, f"{name} {self._seed}", self._progress, self.log.failures)
            for name, kinds in strikes
        ]
        for thread in (*hands, *self._clients):
            thread.start()
        for client in self._clients:
            client.join()
        self._over = True
        for hand in hands:
            hand.join()
        self.log.failures += self.deployment.failures
        self.log.tally += self.deployment.tally

    def read(self, ledger: Path) -> None:
        """Hold what was done against what the ledger holds."""
        neighbour = self.deployment.acknowledged
        self.log.failures += asyncio.run(audit(ledger, self.log, self.rollouts, neighbour))
        self.log.tally.update(submissions(ledger))
        self.log.tally["the neighbour's own"] = len(neighbour)
        self.log.tally["scores contradicted by the neighbour"] = self.deployment.contradicted
        self.log.tally["judged"] = len(self.deployment.judge.judged)

    def _progress(self) -> float:
        return 2.0 if self._over else len(self.log.scored) / len(self.rollouts)

    def _client(self, dice: random.Random, deadline: float) -> None:
        while True:
            with self._taking:
                rollout = next(self._left, None)
            if rollout is None:
                return
            try:
                Trainer(self.deployment.server.url, self.log, dice, deadline).score(rollout)
            except BaseException as error:
                self.log.failures.append(f"{rollout.number}: {error!r}")
                raise

    @property
    def summary(self) -> str:
        """What was done and what came of it, each kind of failure once."""
        kinds = {failure[:30]: failure for failure in reversed(self.log.failures)}
        counted = [f"{number:6} {what}" for what, number in sorted(self.log.tally.items())]
        return "\n".join([f"{len(self.log.failures)} failures", *kinds.values(), *counted])


def scored(
    folder: Path,
    seed: int,
    count: int,
    *,
    clients: int,
    limit_s: float,
    strikes: int,
    longest_s: float = 4.0,
    more: Sequence[str] = (),
) -> Run:
    """So many rollouts, with so many strikes at sandboxes, half as many each at judge and database, and `more` there.

    Args:
        limit_s: for all rollouts together.
        longest_s: how long judge and database may be away at a time.
    """
    mounted = mounts()
    with small_disk(folder / "ledger") as place, no_orphans():
        deployment = Deployment(folder, place, longest_s)
        run = Run(deployment, plan(seed, count), seed, clients, limit_s)
        database = [*drawn(({"full": 2} if place.small else {}) | DATABASE, strikes // 2, f"{seed} database"), *more]
        random.Random(seed).shuffle(database)
        try:
            run.play(
                ("strike_sandbox", drawn(SANDBOXES, strikes, f"{seed} sandboxes")),
                ("strike_judge", drawn(JUDGE, strikes // 2, f"{seed} judge")),
                ("strike_database", database),
            )
            run.log.failures += left_behind(deployment.server, deployment.servers)
        finally:
            deployment.close()
        run.read(place.fetched(folder))
    if mounts() != mounted:
        run.log.failures.append("mounts were left")
    return run
