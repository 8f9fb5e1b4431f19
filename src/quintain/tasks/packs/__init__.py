"""Packs: folders of environments of any kind, with parametrised tasks."""

from quintain.tasks.packs.documents import PackProblem
from quintain.tasks.packs.source import PackSource

__all__ = ["PackProblem", "PackSource"]
