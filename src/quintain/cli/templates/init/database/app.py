"""The environment. Whatever file the URL names, a connection reaches the episode's own database."""

from fastapi import FastAPI, HTTPException
from sqlalchemy import create_engine, text

engine = create_engine("sqlite:///library.db")
app = FastAPI(title="Library")


@app.get("/books/{title}", operation_id="find_book", summary="A book by its title, with the copies on the shelf")
def find_book(title: str):
    """The summary and the parameters are what the agent sees."""
    with engine.begin() as db:
        found = db.execute(text("SELECT id, title, copies FROM books WHERE title = :title"), {"title": title}).first()
    if found is None:
        raise HTTPException(404, "There is no such book.")  # the agent's mistake; a 5xx would be the environment's
    return {"book_id": found.id, "title": found.title, "copies": found.copies}


@app.post("/books/{book_id}/loans", operation_id="lend", summary="Lend a copy to a reader")
def lend(book_id: int, reader: str):
    """What is committed is the state; verifiers compare it before and after."""
    with engine.begin() as db:
        taken = db.execute(text("UPDATE books SET copies = copies - 1 WHERE id = :id AND copies > 0"), {"id": book_id})
        if taken.rowcount == 0:
            raise HTTPException(409, "No copy is on the shelf.")
        db.execute(text("INSERT INTO loans (book_id, reader) VALUES (:id, :reader)"), {"id": book_id, "reader": reader})
    return {"lent_to": reader}
