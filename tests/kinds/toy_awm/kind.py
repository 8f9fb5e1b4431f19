"""A kind that speaks the protocol of the Agent World Model kind over a small database, for tests.

Payload: {"scenario", "database", "code", "schema", "sample", "epoch"} as the real one; `code` is ignored.
"""

import json
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

TOOLS: dict[str, dict[str, Any]] = {
    "list_notes": {"type": "object", "properties": {}},
    "add_note": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "get_note": {"type": "object", "properties": {"note_id": {"type": "integer"}}, "required": ["note_id"]},
    "tick": {"type": "object", "properties": {}},
    "slow": {"type": "object", "properties": {"seconds": {"type": "number"}}},
    "boom": {"type": "object", "properties": {}},
    "die": {"type": "object", "properties": {"after_write": {"type": "string"}}},
    "large": {"type": "object", "properties": {"size": {"type": "integer"}}},
    "shout": {"type": "object", "properties": {}},
    "malformed": {"type": "object", "properties": {}},
    "echo": {"type": "object", "properties": {}},
    "done": {"type": "object", "properties": {}},
}


class Kind:
    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        if payload.get("code") == "does not load":
            raise RuntimeError("this payload cannot be loaded")
        self.path = Path(root) / payload["database"]
        if not self.path.exists():
            with sqlite3.connect(self.path) as db:
                db.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
                db.executemany("INSERT INTO notes (text) VALUES (?)", [(row,) for row in payload["sample"]])
            db.close()
        few = {"no tools": [], "echo and done": ["echo", "done"], "plain": ["list_notes", "add_note", "get_note"]}
        tools = few.get(payload["code"], list(TOOLS)[:-1])
        return {
            "tools": [{"name": n, "description": f"The {n} tool", "input_schema": TOOLS[n]} for n in tools],
            "report": {"statements": 2, "failed": [], "foreign_key_violations": 0},
            "warm": True,
        }

    def warm(self) -> None:
        return None

    def begin(self, start: dict[str, Any]) -> None:
        self.seed = start["seed"]
        self.ticks = 0

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] == "rest":
            return {"rest": self.ticks == 0, "why": f"it has ticked {self.ticks} times"}
        if request["op"] == "vary":
            return self.vary(request["statements"])
        arguments = request["arguments"]
        random.seed(f"{self.seed}:{request['index']}")
        db = sqlite3.connect(self.path)
        try:
            return self.answer(db, request["name"], arguments, request["index"])
        except KeyError as missing:
            return {"status": "invalid_args", "error": f"422: field {missing} is required", "http_status": 422}
        finally:
            db.close()

    def vary(self, statements: list[str]) -> dict[str, Any]:
        with closing(sqlite3.connect(self.path)) as db:
            for statement in statements:
                try:
                    db.execute(statement)
                except sqlite3.Error as error:
                    return {"varied": False, "statement": statement, "error": str(error)}
            db.commit()
        return {"varied": True}

    def answer(self, db: sqlite3.Connection, name: str, arguments: dict[str, Any], index: int) -> dict[str, Any]:
        if name == "list_notes":
            return ok(db.execute("SELECT id, text FROM notes ORDER BY id").fetchall())
        if name == "add_note":
            if not isinstance(arguments["text"], str):
                return {"status": "invalid_args", "error": "422: text is not a string", "http_status": 422}
            note = db.execute("INSERT INTO notes (text) VALUES (?)", (arguments["text"],)).lastrowid
            db.commit()
            return ok({"id": note})
        if name == "get_note":
            row = db.execute("SELECT text FROM notes WHERE id = ?", (arguments["note_id"],)).fetchone()
            if row is None:
                return {"status": "tool_error", "error": "404: Note not found", "http_status": 404}
            return ok({"text": row[0]})
        if name == "tick":
            self.ticks += 1
            return ok({"ticks": self.ticks, "index": index, "draw": random.random(), "seed": self.seed})
        if name == "slow":
            time.sleep(arguments.get("seconds", 5))
            return ok("awake")
        if name == "boom":
            return {"status": "server_error", "error": "500: division by zero", "http_status": 500, "log": "Traceback"}
        if name == "die":
            if "after_write" in arguments:
                db.execute("INSERT INTO notes (text) VALUES (?)", (arguments["after_write"],))
                db.commit()
            raise SystemExit(3)
        if name == "large":
            return {"status": "ok", "text": "x" * arguments["size"]}
        if name == "shout":
            if "link" in arguments:
                self.path.unlink()
                self.path.symlink_to("/etc/hostname")
            text = "\ud83d" if "half" in arguments else "said"
            return {"status": "ok", "text": text, "log": "printed by the tool\n"}
        if name == "malformed":
            return {"status": "splendid", "text": 7}
        return ok(arguments)


def ok(value: Any) -> dict[str, Any]:
    return {"status": "ok", "text": json.dumps(value)}
