"""Verifiers. Each names what it wants: the databases before and after, the answer, the trace, what was drawn.

They run in a sandbox of their own, with the standard library and nothing else.
"""

import re
import sqlite3


def rows(path):
    """All that is in the database."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    books = dict(db.execute("SELECT id, copies FROM books"))
    loans = db.execute("SELECT book_id, reader FROM loans ORDER BY id").fetchall()
    return books, loans


def verify_lent(initial_db_path, final_db_path, variables):
    """The one loan was added, and nothing else has changed."""
    (books, loans), book = rows(initial_db_path), variables["book"]
    wanted = {**books, book: books[book] - 1}, [*loans, (book, variables["reader"])]
    return {"result": "complete" if rows(final_db_path) == wanted else "incomplete"}


def verify_counted(initial_db_path, final_db_path, final_answer, variables):
    """The number is in the answer, whatever words are around it, and nothing has changed."""
    told = re.findall(r"\d+", final_answer or "")
    right = rows(initial_db_path) == rows(final_db_path) and told == [str(variables["copies"])]
    return {"result": "complete" if right else "incomplete"}
