"""Payloads, locks, datasets and verifiers, by digest."""

from quintain.artifacts.base import ArtifactStore
from quintain.artifacts.local import LocalArtifactStore

__all__ = ["ArtifactStore", "LocalArtifactStore"]
