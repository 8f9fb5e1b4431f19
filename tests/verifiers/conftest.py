"""Fixtures of the verifiers' tests."""

import pytest


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints on loopback are reached as such, whatever proxy this machine uses."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
