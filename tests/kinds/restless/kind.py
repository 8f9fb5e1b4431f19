"""A kind whose episodes write to their database as they begin, with nobody asking for it."""

import sqlite3
from pathlib import Path
from typing import Any


class Kind:
    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        self.path = Path(root) / payload["database"]
        if not self.path.exists():
            self._run("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
        return {"tools": [], "report": {"failed": [], "foreign_key_violations": 0}, "warm": True}

    def begin(self, start: dict[str, Any]) -> None:
        self._run("INSERT INTO notes (text) VALUES ('nobody asked for me')")

    def _run(self, sql: str) -> None:
        db = sqlite3.connect(self.path)
        with db:
            db.execute(sql)
        db.close()
