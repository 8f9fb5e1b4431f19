"""The environment: a desk where books are lent."""


class DeskError(Exception):
    """What cannot be done; the agent reads the message."""


class Desk:
    """Annotations and docstrings of its methods become the tools' schemas and descriptions."""

    def __init__(self, copies: dict[str, int] | None = None) -> None:
        """A task's `start` gives arguments by name."""
        self.copies = copies or {"The Tide Tables": 2}
        self.loans: list[list[str]] = []

    def find_book(self, title: str) -> dict[str, int | str]:
        """Tell how many copies of a book are on the shelf."""
        if title not in self.copies:
            raise DeskError(f"There is no book called {title}.")
        return {"title": title, "copies": self.copies[title]}

    def lend(self, title: str, reader: str) -> str:
        """Lend a copy to a reader. Look first whether one is on the shelf."""
        if self.copies.get(title, 0) < 1:
            raise DeskError(f"No copy of {title} is on the shelf.")
        self.copies[title] -= 1
        self.loans.append([title, reader])
        return f"Lent to {reader}."
