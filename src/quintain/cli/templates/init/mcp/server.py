"""The environment: a desk where books are lent, as a server. What it should remember it writes to a file."""

import json
from pathlib import Path

from mcp.server.fastmcp import FastMCP

server = FastMCP("desk")
BOOKS = Path("books.json")


@server.tool()
def find_book(title: str) -> str:
    """Tell how many copies of a book are on the shelf."""
    return f"There are {_books()['copies'][title]} copies of {title}."


@server.tool()
def lend(title: str, reader: str) -> str:
    """Lend a copy to a reader. Look first whether one is on the shelf."""
    books = _books()
    if books["copies"].get(title, 0) < 1:
        raise ValueError(f"No copy of {title} is on the shelf.")
    books["copies"][title] -= 1
    books["loans"].append([title, reader])
    BOOKS.write_text(json.dumps(books))
    return f"Lent to {reader}."


def _books() -> dict:
    return json.loads(BOOKS.read_text())


server.run()
