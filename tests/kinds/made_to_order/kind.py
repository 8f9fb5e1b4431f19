"""`load`, `begin` and `call` each run the code that the payload has under their name."""

from typing import Any


class Kind:
    """Runs the payload's code."""

    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        """Run `load`."""
        self.payload = payload
        exec(payload.get("load", ""), {"root": root})
        return {"loaded": True}

    def warm(self) -> dict[str, Any]:
        """Run `warm`."""
        exec(self.payload.get("warm", ""), {})
        return {}

    def begin(self, start: dict[str, Any]) -> None:
        """Run `begin`."""
        exec(self.payload.get("begin", ""), {"start": start})

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run `call`; its `answer` is the answer."""
        names: dict[str, Any] = {"request": request}
        exec(self.payload.get("call", ""), names)
        return {"answer": names.get("answer")}
