"""Fixtures of the ledger's tests."""

from collections.abc import Iterator

import pytest

from records.children import Child, Start


@pytest.fixture
def start() -> Iterator[Start]:
    """Start children; those that are still there at the end are killed."""
    children: list[Child] = []

    def started(command: str, *arguments: object) -> Child:
        children.append(Child(command, *arguments))
        assert children[-1].hears() == "ready"
        return children[-1]

    yield started
    for child in children:
        with child.process:
            child.process.kill()
