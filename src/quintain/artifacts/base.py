"""The content-addressed store: bytes in, digest out; what comes back has that digest or is an error."""

from pathlib import Path
from typing import Protocol


class ArtifactStore(Protocol):
    """Blobs by `sha256:<hex>` digest. A digest that is not one raises `DescriptorError` everywhere."""

    def put(self, data: bytes) -> str:
        """Store bytes and return their digest; storing the same bytes again changes nothing.

        Raises:
            ArtifactError: the bytes could not be stored (disk full, no permission).
        """
        ...

    def get(self, digest: str) -> bytes:
        """The bytes under a digest, verified on every read.

        Raises:
            ArtifactMissing: nothing is stored under the digest.
            ArtifactCorrupt: what is stored does not have the digest.
        """
        ...

    def path(self, digest: str) -> Path:
        """A read-only file with the bytes, for those who need a file; verified when first asked for.

        Raises:
            ArtifactMissing: nothing is stored under the digest.
            ArtifactCorrupt: what is stored does not have the digest.
        """
        ...

    def has(self, digest: str) -> bool:
        """Whether a blob is stored under the digest. Does not read it."""
        ...
