"""A warehouse over one SQLite file."""

import os

from fastapi import FastAPI, HTTPException
from sqlalchemy import create_engine, text

engine = create_engine(os.getenv("DATABASE_PATH") or "sqlite:///depot_stock.db")
app = FastAPI(title="Depot stock")
PAGE = 3


def rows(db, query, **values):
    return [dict(row._mapping) for row in db.execute(text(query), values)]


def one(db, query, missing, **values):
    found = rows(db, query, **values)
    if not found:
        raise HTTPException(404, missing)
    return found[0]


def put(db, item_id, bin_code, pieces, expires):
    """Add pieces to a bin, if they fit and may lie there."""
    item = one(db, "SELECT * FROM items WHERE id = :id", "there is no such item", id=item_id)
    place = one(db, "SELECT * FROM bins WHERE code = :code", "there is no such bin", code=bin_code)
    if item["hazard"] != "none" and not place["hazard_ok"]:
        raise HTTPException(409, f"{item['hazard']} goods may not lie in {bin_code}")
    lying = one(db, "SELECT coalesce(sum(pieces), 0) AS pieces FROM stock WHERE bin = :code", "", code=bin_code)[
        "pieces"
    ]
    if lying + pieces > place["max_pieces"]:
        raise HTTPException(409, f"{bin_code} has room for {place['max_pieces'] - lying} pieces more")
    same = rows(
        db, "SELECT id FROM stock WHERE item_id = :i AND bin = :b AND expires = :e", i=item_id, b=bin_code, e=expires
    )
    if same:
        db.execute(text("UPDATE stock SET pieces = pieces + :p WHERE id = :id"), {"p": pieces, "id": same[0]["id"]})
    else:
        db.execute(
            text("INSERT INTO stock (item_id, bin, pieces, expires) VALUES (:i, :b, :p, :e)"),
            {"i": item_id, "b": bin_code, "p": pieces, "e": expires},
        )


def take(db, stock_id, pieces):
    """Take pieces of a stock; what comes to nothing is no stock any more."""
    stock = one(db, "SELECT * FROM stock WHERE id = :id", "there is no such stock", id=stock_id)
    if pieces < 1 or pieces > stock["pieces"]:
        raise HTTPException(409, f"that stock has {stock['pieces']} pieces")
    db.execute(text("UPDATE stock SET pieces = pieces - :p WHERE id = :id"), {"p": pieces, "id": stock_id})
    db.execute(text("DELETE FROM stock WHERE id = :id AND pieces = 0"), {"id": stock_id})
    return stock


@app.get("/items", operation_id="find_items", summary="Items by a part of code or name, with pieces per pack")
def find_items(contains: str):
    with engine.begin() as db:
        query = "SELECT * FROM items WHERE instr(lower(code || ' ' || name), lower(:part)) ORDER BY id"
        return rows(db, query, part=contains)


@app.get("/bins/{code}", operation_id="look_into_bin", summary="A bin's limit in pieces, and the stock in it")
def look_into_bin(code: str):
    with engine.begin() as db:
        place = one(db, "SELECT * FROM bins WHERE code = :code", "there is no such bin", code=code)
        return {**place, "stock": rows(db, "SELECT * FROM stock WHERE bin = :code ORDER BY id", code=code)}


@app.get(
    "/items/{item_id}/stock", operation_id="find_stock", summary="Where an item lies; three to a page, from page 1"
)
def find_stock(item_id: int, page: int = 1):
    with engine.begin() as db:
        found = rows(db, "SELECT * FROM stock WHERE item_id = :id ORDER BY bin, id", id=item_id)
        return {"pages": -(-len(found) // PAGE), "stock": found[(page - 1) * PAGE : page * PAGE] if page > 0 else []}


@app.get("/orders/{order_id}", operation_id="get_order", summary="An order and its lines, in pieces")
def get_order(order_id: int):
    with engine.begin() as db:
        order = one(db, "SELECT * FROM orders WHERE id = :id", "there is no such order", id=order_id)
        return {**order, "lines": rows(db, "SELECT * FROM lines WHERE order_id = :id ORDER BY id", id=order_id)}


@app.get("/deliveries", operation_id="list_deliveries", summary="Deliveries, with how many packs came")
def list_deliveries():
    with engine.begin() as db:
        return rows(db, "SELECT * FROM deliveries ORDER BY id")


@app.get("/rules/{topic}", operation_id="read_rule", summary="A rule of the depot: storing, picking or expiry")
def read_rule(topic: str):
    with engine.begin() as db:
        return one(db, "SELECT * FROM rules WHERE topic = :topic", "there is no rule about that", topic=topic)


@app.post("/stock/{stock_id}/move", operation_id="move_stock", summary="Move pieces of a stock to another bin")
def move_stock(stock_id: int, to_bin: str, pieces: int):
    with engine.begin() as db:
        stock = take(db, stock_id, pieces)
        put(db, stock["item_id"], to_bin, pieces, stock["expires"])
        return {"moved": pieces, "to": to_bin}


@app.post("/deliveries/{delivery_id}/book", operation_id="book_in", summary="Book pieces of a delivery into a bin")
def book_in(delivery_id: int, bin_code: str, pieces: int):
    with engine.begin() as db:
        query = (
            "SELECT deliveries.*, pack_size FROM deliveries JOIN items ON items.id = item_id WHERE deliveries.id = :id"
        )
        came = one(db, query, "there is no such delivery", id=delivery_id)
        if came["state"] != "at the gate":
            raise HTTPException(409, "that delivery is booked in")
        if pieces != came["packs"] * came["pack_size"]:
            raise HTTPException(409, "that is not what was delivered; packs are opened and counted in pieces")
        put(db, came["item_id"], bin_code, pieces, "")
        db.execute(text("UPDATE deliveries SET state = 'booked' WHERE id = :id"), {"id": delivery_id})
        return {"booked": pieces, "bin": bin_code}


@app.post("/lines/{line_id}/pick", operation_id="pick", summary="Pick pieces of a stock for a line of an order")
def pick(line_id: int, stock_id: int, pieces: int):
    with engine.begin() as db:
        line = one(db, "SELECT * FROM lines WHERE id = :id", "there is no such line", id=line_id)
        stock = one(db, "SELECT * FROM stock WHERE id = :id", "there is no such stock", id=stock_id)
        if stock["item_id"] != line["item_id"]:
            raise HTTPException(409, "that is another item than the line asks for")
        if line["picked"] + pieces > line["pieces"]:
            raise HTTPException(409, "that is more than the line asks for")
        take(db, stock_id, pieces)
        db.execute(text("UPDATE lines SET picked = picked + :p WHERE id = :id"), {"p": pieces, "id": line_id})
        return {"picked": line["picked"] + pieces, "of": line["pieces"]}


@app.post("/orders/{order_id}/ship", operation_id="ship_order", summary="Ship an order that is fully picked")
def ship_order(order_id: int):
    with engine.begin() as db:
        one(db, "SELECT 1 FROM orders WHERE id = :id AND state = 'open'", "there is no such open order", id=order_id)
        if rows(db, "SELECT 1 FROM lines WHERE order_id = :id AND picked < pieces", id=order_id):
            raise HTTPException(409, "not all of its lines are picked")
        db.execute(text("UPDATE orders SET state = 'shipped' WHERE id = :id"), {"id": order_id})
        return {"shipped": order_id}


@app.post("/stock/{stock_id}/write-off", operation_id="write_off", summary="Write a whole stock off; it goes to waste")
def write_off(stock_id: int):
    with engine.begin() as db:
        stock = one(db, "SELECT * FROM stock WHERE id = :id", "there is no such stock", id=stock_id)
        db.execute(text("DELETE FROM stock WHERE id = :id"), {"id": stock_id})
        db.execute(
            text("INSERT INTO written_off (stock_id, pieces) VALUES (:s, :p)"), {"s": stock_id, "p": stock["pieces"]}
        )
        return {"written_off": stock["pieces"]}


@app.post(
    "/stock/{stock_id}/correct",
    operation_id="correct_count",
    summary="Set a stock's count to what you say; for stocktaking",
)
def correct_count(stock_id: int, pieces: int):
    with engine.begin() as db:
        one(db, "SELECT 1 FROM stock WHERE id = :id", "there is no such stock", id=stock_id)
        db.execute(text("UPDATE stock SET pieces = :p WHERE id = :id"), {"p": pieces, "id": stock_id})
        return {"pieces": pieces}
