"""Agent tokens: each lets an agent into one episode, and nowhere else.

Only digests are kept, and a token is looked up by its digest, so how long that takes tells nothing about the tokens
there are. A token that was never given and one that is over are told apart nowhere.
"""

import asyncio
import hashlib
import secrets
from typing import Final, Generic, TypeVar

Holder = TypeVar("Holder")

TOKEN_BYTES: Final = 32
"""Random bytes in a token."""

REQUESTS_AT_ONCE: Final = 16
"""Requests of one episode that are read, worked on or answered at a time; more wait."""


class AgentPass(Generic[Holder]):
    """What one token is good for, and what is going on with it."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.ended = asyncio.Event()
        """Set once the token is good for nothing."""
        self.places = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self.requests = 0
        """How many requests are under way, those that wait included."""
        self.held_bytes = 0
        """How much of their bodies is held."""


class AgentTokens(Generic[Holder]):
    """The tokens that are good now."""

    def __init__(self) -> None:
        self._passes: dict[bytes, AgentPass[Holder]] = {}

    def __len__(self) -> int:
        return len(self._passes)

    def issue(self, holder: Holder) -> str:
        """A new token."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._passes[_digest(token)] = AgentPass(holder)
        return token

    def find(self, token: str) -> AgentPass[Holder] | None:
        """What a token is good for; None for nothing."""
        return self._passes.get(_digest(token))

    def revoke(self, token: str) -> None:
        """From now on the token is good for nothing, and what goes on with it is told so. Idempotent."""
        ended = self._passes.pop(_digest(token), None)
        if ended is not None:
            ended.ended.set()


class AgentDoor(Generic[Holder]):
    """The way into the episodes of one session for agents: one token at a time, that of the running episode."""

    def __init__(self, tokens: AgentTokens[Holder], holder: Holder) -> None:
        self._tokens = tokens
        self._holder = holder
        self._token: str | None = None

    def open(self) -> str:
        """The token of an episode that begins; the one before is over."""
        self.shut()
        self._token = self._tokens.issue(self._holder)
        return self._token

    def shut(self) -> None:
        """The episode is over, and its token with it. Idempotent."""
        token, self._token = self._token, None
        if token is not None:
            self._tokens.revoke(token)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
