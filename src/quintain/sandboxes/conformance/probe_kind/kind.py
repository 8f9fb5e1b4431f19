"""Runs one named probe per call."""

import os
from typing import Any

from . import answers, exhaust, meddle, reach


class Kind:
    """Each call names a function of the probe modules and its arguments; the answer is what it returned or raised."""

    def __init__(self) -> None:
        self.root = ""
        self.calls = 0

    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        """Leave one state file, named in the payload."""
        self.root = root
        if payload.get("fail"):
            raise RuntimeError(payload["fail"])
        path = os.path.join(root, "state.txt")
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(payload.get("state", "initial"))
        return {"probe": True}

    def warm(self) -> dict[str, Any]:
        """Nothing to warm."""
        return {}

    def begin(self, start: dict[str, Any]) -> None:
        """Remember what was given."""
        self.start = start

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """{"value": ...} or {"raised": type name, "errno": number or None, "text": ...}."""
        self.calls += 1
        for module in (answers, reach, meddle, exhaust):
            probe = getattr(module, request["probe"], None)
            if probe is not None:
                break
        else:
            raise LookupError(request["probe"])
        try:
            return {"value": probe(self, **request.get("arguments", {}))}
        except SystemExit:
            raise
        except BaseException as error:
            return {"raised": type(error).__name__, "errno": getattr(error, "errno", None), "text": str(error)}
