"""A kind that speaks the verifier protocol, without isolation, for tests."""

import time
from pathlib import Path
from typing import Any


class Kind:
    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        assert payload == {}
        self.root = Path(root)
        return {}

    def begin(self, start: dict[str, Any]) -> None:
        for name in (start["initial"], start["final"]):
            assert (self.root / name).is_file(), f"{name} was not handed over"

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] != "verify":
            return {"status": "error", "error": f"a toy cannot do {request['op']}", "log": ""}
        scope: dict[str, Any] = {"time": time}
        try:
            exec(request["code"], scope)
            initial, final = str(self.root / request["initial"]), str(self.root / request["final"])
            value = scope["verify_task_completion"](initial, final, request["final_answer"])
        except Exception as error:
            return {"status": "error", "error": f"{type(error).__name__}: {error}", "log": "Traceback"}
        return {"status": "ok", "value": value, "log": "looked at both databases"}
