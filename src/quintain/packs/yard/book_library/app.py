"""A lending library over one SQLite file."""

import os
from datetime import date, timedelta

from fastapi import FastAPI, HTTPException
from sqlalchemy import create_engine, text

engine = create_engine(os.getenv("DATABASE_PATH") or "sqlite:///book_library.db")
app = FastAPI(title="Book library")
PAGE = 4


def rows(db, query, **values):
    return [dict(row._mapping) for row in db.execute(text(query), values)]


def one(db, query, missing, **values):
    found = rows(db, query, **values)
    if not found:
        raise HTTPException(404, missing)
    return found[0]


@app.get("/members", operation_id="find_members", summary="Members by first name; several may have one name")
def find_members(name: str):
    with engine.begin() as db:
        return rows(db, "SELECT * FROM members WHERE name = :name ORDER BY id", name=name)


@app.get("/titles", operation_id="find_titles", summary="Titles whose name contains a text, in every edition")
def find_titles(contains: str):
    with engine.begin() as db:
        return rows(db, "SELECT * FROM titles WHERE instr(lower(name), lower(:part)) ORDER BY id", part=contains)


@app.get("/titles/{title_id}/copies", operation_id="list_copies", summary="Copies of a title: in, out, lost or repair")
def list_copies(title_id: int):
    with engine.begin() as db:
        return rows(db, "SELECT * FROM copies WHERE title_id = :id ORDER BY id", id=title_id)


@app.get("/members/{member_id}/loans", operation_id="list_loans", summary="A member's loans that are not returned")
def list_loans(member_id: int):
    with engine.begin() as db:
        query = (
            "SELECT loans.*, copies.title_id, titles.name FROM loans JOIN copies ON copies.id = copy_id "
            "JOIN titles ON titles.id = title_id WHERE member_id = :id AND NOT returned ORDER BY loans.id"
        )
        return rows(db, query, id=member_id)


@app.get("/holds", operation_id="list_holds", summary="Holds on a title, the first in the queue first")
def list_holds(title_id: int):
    with engine.begin() as db:
        return rows(db, "SELECT * FROM holds WHERE title_id = :id ORDER BY id", id=title_id)


@app.get(
    "/members/{member_id}/fines", operation_id="list_fines", summary="A member's fines, four to a page from page 1"
)
def list_fines(member_id: int, page: int = 1):
    with engine.begin() as db:
        found = rows(db, "SELECT * FROM fines WHERE member_id = :id ORDER BY id", id=member_id)
        return {"pages": -(-len(found) // PAGE), "fines": found[(page - 1) * PAGE : page * PAGE] if page > 0 else []}


@app.get("/rules/{topic}", operation_id="read_rule", summary="A rule of the library: renewal, fines or moving")
def read_rule(topic: str):
    with engine.begin() as db:
        return one(db, "SELECT * FROM rules WHERE topic = :topic", "there is no rule about that", topic=topic)


@app.post(
    "/loans", operation_id="lend_copy", summary="Lend a copy to a member for 14 days from a day such as 2026-02-10"
)
def lend_copy(copy_id: int, member_id: int, today: date):
    with engine.begin() as db:
        copy = one(db, "SELECT * FROM copies WHERE id = :id", "there is no such copy", id=copy_id)
        member = one(db, "SELECT * FROM members WHERE id = :id", "there is no such member", id=member_id)
        if copy["state"] != "in":
            raise HTTPException(409, f"the copy is not on its shelf: {copy['state']}; take another copy of the title")
        if member["card"] != "valid":
            raise HTTPException(409, "the member's card has expired; extend it first")
        if (
            len(rows(db, "SELECT 1 FROM loans WHERE member_id = :id AND NOT returned", id=member_id))
            >= member["max_loans"]
        ):
            raise HTTPException(409, "the member has as many loans as are allowed")
        queue = rows(db, "SELECT member_id FROM holds WHERE title_id = :id ORDER BY id", id=copy["title_id"])
        if queue and queue[0]["member_id"] != member_id:
            raise HTTPException(409, "another member is first in the queue for this title")
        db.execute(
            text("DELETE FROM holds WHERE title_id = :t AND member_id = :m"), {"t": copy["title_id"], "m": member_id}
        )
        db.execute(text("UPDATE copies SET state = 'out' WHERE id = :id"), {"id": copy_id})
        due = (today + timedelta(days=14)).isoformat()
        made = db.execute(
            text("INSERT INTO loans (copy_id, member_id, due) VALUES (:c, :m, :d)"),
            {"c": copy_id, "m": member_id, "d": due},
        )
        return {"loan": made.lastrowid, "due": due}


@app.post("/loans/{loan_id}/return", operation_id="return_loan", summary="Take a lent copy back onto its shelf")
def return_loan(loan_id: int):
    with engine.begin() as db:
        loan = one(db, "SELECT * FROM loans WHERE id = :id AND NOT returned", "there is no such loan", id=loan_id)
        db.execute(text("UPDATE loans SET returned = 1 WHERE id = :id"), {"id": loan_id})
        db.execute(text("UPDATE copies SET state = 'in' WHERE id = :id"), {"id": loan["copy_id"]})
        return {"returned": loan_id}


@app.post("/loans/{loan_id}/renew", operation_id="renew_loan", summary="Renew a loan; read the rule about renewal")
def renew_loan(loan_id: int):
    with engine.begin() as db:
        query = (
            "SELECT loans.*, title_id FROM loans JOIN copies ON copies.id = copy_id "
            "WHERE loans.id = :id AND NOT returned"
        )
        loan = one(db, query, "there is no such loan", id=loan_id)
        if loan["renewals"] >= 2:
            raise HTTPException(409, "it has been renewed twice")
        if rows(
            db, "SELECT 1 FROM holds WHERE title_id = :t AND member_id != :m", t=loan["title_id"], m=loan["member_id"]
        ):
            raise HTTPException(409, "another member has a hold on the title")
        due = (date.fromisoformat(loan["due"]) + timedelta(days=14)).isoformat()
        db.execute(
            text("UPDATE loans SET due = :due, renewals = renewals + 1 WHERE id = :id"), {"due": due, "id": loan_id}
        )
        return {"loan": loan_id, "due": due}


@app.post(
    "/members/{member_id}/card", operation_id="extend_card", summary="Make a member's card valid again for a year"
)
def extend_card(member_id: int):
    with engine.begin() as db:
        one(db, "SELECT 1 FROM members WHERE id = :id", "there is no such member", id=member_id)
        db.execute(text("UPDATE members SET card = 'valid' WHERE id = :id"), {"id": member_id})
        return {"card": "valid"}


@app.post("/holds", operation_id="place_hold", summary="Put a member into the queue for a title")
def place_hold(title_id: int, member_id: int):
    with engine.begin() as db:
        one(db, "SELECT 1 FROM titles WHERE id = :id", "there is no such title", id=title_id)
        one(db, "SELECT 1 FROM members WHERE id = :id", "there is no such member", id=member_id)
        if rows(db, "SELECT 1 FROM holds WHERE title_id = :t AND member_id = :m", t=title_id, m=member_id):
            raise HTTPException(409, "the member is in the queue already")
        made = db.execute(
            text("INSERT INTO holds (title_id, member_id) VALUES (:t, :m)"), {"t": title_id, "m": member_id}
        )
        return {"hold": made.lastrowid}


@app.post("/fines/{fine_id}/waive", operation_id="waive_fine", summary="Waive a fine; read the rule about fines")
def waive_fine(fine_id: int):
    with engine.begin() as db:
        one(db, "SELECT 1 FROM fines WHERE id = :id AND state = 'open'", "there is no such open fine", id=fine_id)
        db.execute(text("UPDATE fines SET state = 'waived' WHERE id = :id"), {"id": fine_id})
        return {"waived": fine_id}


@app.post(
    "/members/{member_id}/fines/clear", operation_id="clear_fines", summary="Delete all fines of a member; no rule"
)
def clear_fines(member_id: int):
    with engine.begin() as db:
        gone = db.execute(text("DELETE FROM fines WHERE member_id = :id"), {"id": member_id})
        return {"deleted": gone.rowcount}
