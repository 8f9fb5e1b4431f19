"""Every source of randomness, reseeded at each call from the episode's seed and the call's index."""

import hashlib
import os
import random
import uuid
import weakref
from typing import Any

_NODE = 0x03_51_55_49_4E_54
"""Host id in version 1 UUIDs; its multicast bit says that it is no real network address."""


class Seeds:
    """Owns the process's random sources. `begin` rewinds them to what (seed, index) determines."""

    def __init__(self) -> None:
        self._plain = random.Random
        self._place = "0:0"
        self._born = 0
        self._entropy = random.Random(0)
        self._sql = random.Random(0)
        self._global: list[random.Random] = []
        self._unseeded: dict[int, tuple[weakref.ref[random.Random], str]] = {}

    def install(self) -> None:
        """Replace the sources: `random` and its unseeded instances, `os.urandom` and so `secrets`, `uuid`."""
        before = random._inst
        random.Random = _random_class(self)  # type: ignore[misc]
        after = random.Random(0)
        for name, value in list(vars(random).items()):
            if getattr(value, "__self__", None) is before:
                setattr(random, name, getattr(after, name))
        random._inst = after
        self._global = [before, after]
        os.urandom = self._entropy_bytes
        os.getrandom = self._getrandom
        random._urandom = self._entropy_bytes  # type: ignore[attr-defined]
        uuid._node = _NODE  # type: ignore[attr-defined]

    def begin(self, seed: int, index: int) -> None:
        """Rewind every source to the start of call `index` under `seed`."""
        self._place = f"{seed}:{index}"
        self._born = 0
        self._entropy.seed(self._derived("entropy"))
        self._sql.seed(self._derived("sql"))
        for source in self._global:
            source.seed(self._derived("random"))
        for key, (reference, label) in list(self._unseeded.items()):
            instance = reference()
            if instance is None:
                del self._unseeded[key]
            else:
                self._plain.seed(instance, self._derived(label))

    def sql_integer(self) -> int:
        """A signed 64-bit integer, as SQL `random()` gives."""
        return self._sql.getrandbits(64) - 2**63

    def sql_bytes(self, size: Any) -> bytes:
        """Bytes as SQL `randomblob(size)` gives: at least one."""
        return self._sql.randbytes(max(int(size or 0), 1))

    def adopt(self, instance: random.Random) -> int:
        """Take charge of an instance that was not given a seed; returns its first one."""
        self._born += 1
        label = f"instance {self._place} {self._born}"
        self._unseeded[id(instance)] = (weakref.ref(instance), label)
        return self._derived(label)

    def release(self, instance: random.Random) -> None:
        """Forget an instance: the code gave it a seed of its own."""
        self._unseeded.pop(id(instance), None)

    def _entropy_bytes(self, size: int, /) -> bytes:
        return self._entropy.randbytes(size)

    def _getrandom(self, size: int, flags: int = 0) -> bytes:
        return self._entropy.randbytes(size)

    def _derived(self, purpose: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._place}:{purpose}".encode()).digest(), "big")


def _random_class(seeds: Seeds) -> type[random.Random]:
    class Random(random.Random):
        def seed(self, a: Any = None, version: int = 2) -> None:
            if a is None:
                a = seeds.adopt(self)
            else:
                seeds.release(self)
            super().seed(a, version)

    Random.__module__ = "random"
    Random.__qualname__ = "Random"
    return Random
