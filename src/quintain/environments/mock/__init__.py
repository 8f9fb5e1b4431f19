"""Mocks: tools whose answers are canned, by rules that a document gives."""

from pathlib import Path
from typing import Final

from quintain.artifacts import ArtifactStore
from quintain.environments.inprocess.kind import InProcessKind
from quintain.environments.mock.check import check
from quintain.environments.mock.machine import MockMachine

__all__ = ["KIND", "MockMachine", "check", "mock_kind"]

KIND: Final = "mock"


def mock_kind(store: ArtifactStore, scratch: Path | None = None) -> InProcessKind:
    """The kind of environment of mocks."""
    return InProcessKind(KIND, check, MockMachine.of, store, scratch=scratch)
