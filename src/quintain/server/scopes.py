"""Which pools a connection's client may see, and the rooms as it sees them."""

from dataclasses import replace
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import Scope

from quintain.episodes import Rooms
from quintain.tasks.pooled import PooledSource, PoolScope
from quintain.tasks.pools import Pool
from quintain.tasks.registry import TaskRegistry

ANYONE: Final = PoolScope(frozenset({Pool.TRAIN}), "a client without a token")
"""The scope of clients where there are no tokens and no setting says otherwise."""

_KEY: Final = "quintain.pools"


def bind(connection: Scope, scope: PoolScope) -> Scope:
    """The ASGI scope of a connection whose client may see these pools."""
    return {**connection, _KEY: scope}


def scope_of(connection: HTTPConnection) -> PoolScope:
    """What a connection's client may see, as it was bound."""
    bound: PoolScope = connection.scope[_KEY]
    return bound


class ScopedRooms:
    """The rooms by who sees them. Without a registry everyone sees everything."""

    def __init__(self, rooms: Rooms, registry: TaskRegistry | None) -> None:
        self._rooms = rooms
        self._registry = registry
        self._views: dict[PoolScope, Rooms] = {}

    def of(self, scope: PoolScope) -> Rooms:
        """The rooms with the tasks that a scope shows."""
        if self._registry is None:
            return self._rooms
        if scope not in self._views:
            source = PooledSource(self._rooms.source, self._registry, scope)
            self._views[scope] = replace(self._rooms, source=source)
        return self._views[scope]

    def pools(self, scope: PoolScope) -> tuple[Pool, ...]:
        """The pools that a scope shows, in their order; without a registry everything is in train."""
        return (Pool.TRAIN,) if self._registry is None else tuple(pool for pool in Pool if pool in scope.pools)

    def of_pool(self, scope: PoolScope, pool: Pool) -> Rooms:
        """The rooms with the tasks of one pool of a scope."""
        return self.of(replace(scope, pools=frozenset({pool})))
