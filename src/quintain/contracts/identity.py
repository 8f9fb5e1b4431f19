"""Identity: canonical JSON and the digests made from it.

Canonical JSON is RFC 8785 (JCS): key order and the spelling of a number (1.0 or 1) do not matter.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

import rfc8785
from pydantic import AfterValidator, Field, StringConstraints

from quintain.errors import DescriptorError

MAX_SEED = 2**53 - 1
"""Largest seed: the largest integer that RFC 8785 can carry exactly."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""A content digest as it prints everywhere: `sha256:` and 64 lower-case hex digits."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)]
"""A seed: 0 to 2^53-1."""


def sha256(data: bytes) -> str:
    """Digest of raw bytes, as `sha256:<hex>`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value.

    Raises:
        DescriptorError: a value JSON cannot carry (NaN, an integer over 2^53-1, a non-string key).
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise DescriptorError(f"not representable as canonical JSON (RFC 8785): {error}") from error


def digest_of(value: Mapping[str, Any]) -> str:
    """Digest of a JSON object's canonical form."""
    return sha256(canonical_json(value))


def _checked_cas(value: str) -> str:
    scheme, _, hexdigest = value.rpartition("/")
    if scheme != "cas://sha256" or len(hexdigest) != 64 or set(hexdigest) - set("0123456789abcdef"):
        raise ValueError(f"expected cas://sha256/<64 hex digits>, got {value!r}")
    return value


CasUri = Annotated[str, AfterValidator(_checked_cas)]
"""Reference to a blob of the artifact store: `cas://sha256/<hex>`."""


def cas_uri(digest: str) -> str:
    """`cas://sha256/<hex>` for a `sha256:<hex>` digest."""
    return "cas://sha256/" + digest.removeprefix("sha256:")
