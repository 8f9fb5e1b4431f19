"""Control tokens: whose they are, and which pools their holders may list and reset.

A tokens file is JSON: `{"schema_version": 1, "tokens": [{"name": "nightly", "token": "...", "pools": ["dev"]}]}`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError, model_validator

from quintain.contracts.documents import UnreadableDocument, from_json
from quintain.errors import SettingsError
from quintain.server.scopes import ANYONE
from quintain.server.settings import Settings
from quintain.tasks.history import Stated
from quintain.tasks.pooled import PoolScope
from quintain.tasks.pools import Pool

MIN_TOKEN: Final = 16
"""Fewest characters of a token in a tokens file."""


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ControlToken(_Contract):
    """One token of a tokens file."""

    name: Annotated[str, StringConstraints(pattern=r"^[\w.:-]{1,80}$")]
    token: Annotated[SecretStr, Field(min_length=MIN_TOKEN)]
    pools: Annotated[tuple[Pool, ...], Field(min_length=1)] = (Pool.TRAIN,)
    milestone: Stated | None = None

    @model_validator(mode="after")
    def _stated(self) -> Self:
        if Pool.BLIND in self.pools and self.milestone is None:
            raise ValueError(f"{self.name} may see blind tasks, so its milestone must be stated")
        return self


class TokensFile(_Contract):
    """A tokens file. Every token and every name stands once."""

    schema_version: Literal[1]
    tokens: tuple[ControlToken, ...]


@dataclass(frozen=True)
class Holder:
    """A token's digest, and what its holder may see."""

    digest: bytes
    scope: PoolScope


class Holders:
    """Everyone who may use the control plane. `anyone` is the scope of those without a token; None lets none in."""

    def __init__(self, holders: Iterable[Holder], anyone: PoolScope | None) -> None:
        self._holders = tuple(holders)
        self.anyone = anyone

    @classmethod
    def read(cls, settings: Settings) -> Self:
        """Those that the settings name.

        Raises:
            SettingsError: the tokens file is unreadable, or a token or name stands twice.
        """
        own = PoolScope(frozenset(settings.token_pools), "this token")
        holders = [Holder(_digest(settings.token.get_secret_value().encode()), own)] if settings.token else []
        for one in _tokens(settings.tokens) if settings.tokens is not None else ():
            scope = PoolScope(frozenset(one.pools), one.name, one.milestone)
            holders.append(Holder(_digest(one.token.get_secret_value().encode()), scope))
        if len({holder.digest for holder in holders}) < len(holders):
            raise SettingsError(f"QUINTAIN_TOKENS: a token stands twice in {settings.tokens}, or is QUINTAIN_TOKEN too")
        if len({holder.scope.by for holder in holders}) < len(holders):
            raise SettingsError(f"QUINTAIN_TOKENS: a name stands twice in {settings.tokens}; give each its own")
        return cls(holders, None if holders else PoolScope(own.pools, ANYONE.by))

    def holder_of(self, token: bytes) -> PoolScope | None:
        """The scope of a token's holder; None for a token that nobody holds. Takes as long whichever it is."""
        given, found = _digest(token), None
        for holder in self._holders:
            if compare_digest(given, holder.digest):
                found = holder.scope
        return found


def credentials(settings: Settings) -> tuple[str, ...]:
    """Every secret that the settings hold or name.

    Raises:
        SettingsError: the tokens file is unreadable.
    """
    held = [one.token for one in _tokens(settings.tokens)] if settings.tokens is not None else []
    own = [secret for secret in (settings.token, settings.llm_api_key) if secret is not None]
    return tuple(secret.get_secret_value() for secret in (*own, *held))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()  # of equal length, so that comparing tells nothing of theirs


def _tokens(path: Path) -> tuple[ControlToken, ...]:
    try:
        return TokensFile.model_validate(from_json(path.read_bytes())).tokens
    except OSError as error:
        raise SettingsError(f"QUINTAIN_TOKENS: {path} cannot be read: {error.strerror or error}") from error
    except UnreadableDocument:
        raise SettingsError(f"QUINTAIN_TOKENS: {path} is not JSON, or has a key twice; correct it") from None
    except ValidationError as error:
        item = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in item["loc"]) or "the document"
        message = str(item["msg"]).removeprefix("Value error, ")
        told = f"QUINTAIN_TOKENS: {path}: {where}: {message[:1].lower()}{message[1:]}"
        raise SettingsError(told) from None
