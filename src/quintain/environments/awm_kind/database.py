"""The seed database of a scenario, built statement by statement; what fails is counted and reported."""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = 200
"""Characters of a failed statement that are reported."""


def build(path: str, schema: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Create the database at `path` and return the report.

    Args:
        schema: tables with `ddl` and `indexes`.
        sample: tables with `insert_statements`.

    Returns:
        `statements` run, `failed` ones as {statement, error}, `foreign_key_violations` found afterwards.
    """
    failed: list[dict[str, str]] = []
    count = 0
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN")
        for statement in _statements(schema, sample):
            count += 1
            error = _run(connection, statement)
            if error is not None:
                failed.append(_failure(statement, error))
        if connection.in_transaction:
            connection.commit()
        violations = _violations(connection, failed)
        return {"statements": count, "failed": failed, "foreign_key_violations": violations}
    finally:
        connection.close()


def vary(path: str, statements: list[str]) -> dict[str, Any]:
    """Run statements on a database that was built, all or none.

    Returns:
        `varied`; where that is False, the `statement` that failed, and its `error`.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN")
        for statement in statements:
            error = _run(connection, statement)
            if error is not None:
                if connection.in_transaction:
                    connection.rollback()
                return {"varied": False, **_failure(statement, error)}
        if connection.in_transaction:
            connection.commit()
        return {"varied": True}
    finally:
        connection.close()


def inspect(path: str) -> dict[str, Any]:
    """The report of a database that was built before: nothing was run now."""
    failed: list[dict[str, str]] = []
    connection = sqlite3.connect(path)
    try:
        violations = _violations(connection, failed)
        return {"statements": 0, "failed": failed, "foreign_key_violations": violations}
    finally:
        connection.close()


def _statements(schema: Mapping[str, Any], sample: Mapping[str, Any]) -> Iterator[str]:
    for table in schema.get("tables") or ():
        if table.get("ddl"):
            yield table["ddl"]
        yield from table.get("indexes") or ()
    for table in sample.get("tables") or ():
        yield from table.get("insert_statements") or ()


def _run(connection: sqlite3.Connection, statement: str) -> str | None:
    """The error of a statement; text that holds several runs up to the one that fails."""
    try:
        connection.execute(statement)
    except sqlite3.ProgrammingError:
        return _run_parts(connection, statement)
    except (sqlite3.Error, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _run_parts(connection: sqlite3.Connection, script: str) -> str | None:
    part = ""
    try:
        for piece in script.split(";"):
            part += piece + ";"
            if sqlite3.complete_statement(part):
                connection.execute(part)
                part = ""
        connection.execute(part)
    except (sqlite3.Error, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _violations(connection: sqlite3.Connection, failed: list[dict[str, str]]) -> int:
    """Rows that violate a foreign key; a table whose keys cannot be checked at all is added to `failed`."""
    total = 0
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        check = 'PRAGMA foreign_key_check("' + table.replace('"', '""') + '")'
        try:
            total += len(connection.execute(check).fetchall())
        except sqlite3.Error as error:
            failed.append(_failure(check, f"{type(error).__name__}: {error}"))
    return total


def _failure(statement: str, error: str) -> dict[str, str]:
    return {"statement": statement.strip()[:_HEAD], "error": error}
