"""A club's books. Money is in cents; a date is text, as 2026-02-10."""

import re
from typing import Annotated, Any

Cents = Annotated[int, "money in cents: 12.50 euros are 1250"]
Day = Annotated[str, "a date, as 2026-02-10"]
Month = Annotated[str, "a month, as 2026-01"]
PAGE = 4
CHART = {
    "1000": "Bank",
    "1100": "Cash box",
    "2000": "Owed to suppliers",
    "4000": "Members' fees",
    "4100": "Donations",
    "6000": "Rent",
    "6100": "Insurance, house",
    "6110": "Insurance, boats",
    "6120": "Insurance, youth",
    "6200": "Equipment",
    "6300": "Bank charges",
}
RULES = {
    "corrections": "What was entered stays. A wrong entry is reversed as a whole, and "
    "entered anew where need be; nothing is deleted.",
    "closed months": "A closed month is never opened again. What is wrong in it is reversed and entered "
    "anew in the month of today.",
    "sharing": "A bill for several is shared by the number of members, each share rounded down to whole cents; "
    "what is left goes to the largest group.",
    "closing": "A month is closed when its entries on the bank account agree with the bank's statement line by line.",
}


class BooksError(Exception):
    """The books do not allow it."""


class Books:
    """Entries, and the months that are closed."""

    def __init__(
        self,
        entries: list[dict[str, Any]] | None = None,
        lines: list[dict[str, Any]] | None = None,
        bills: list[dict[str, Any]] | None = None,
        members: dict[str, int] | None = None,
        closed: list[str] | None = None,
    ) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        for one in entries or []:
            self._add(one["day"], one["text"], one["debit"], one["credit"], one["cents"])
        self.lines = lines or []
        self.bills = bills or []
        self.members = members or {}
        self.closed = closed or []
        self.reopened: list[str] = []

    def chart(self) -> dict[str, str]:
        """All accounts by number."""
        return CHART

    def read_rule(self, topic: str) -> str:
        """A rule of the club's books.

        Args:
            topic: corrections, closed months, sharing or closing
        """
        if topic not in RULES:
            raise BooksError(f"there are rules about {', '.join(RULES)}")
        return RULES[topic]

    def list_entries(self, month: Month, page: int = 1) -> dict[str, Any]:
        """A month's entries, four to a page. An entry's money goes from its account `credit` to its account `debit`."""
        found = [{"entry": number, **one} for number, one in self.entries.items() if one["day"].startswith(month)]
        first = (page - 1) * PAGE
        return {"pages": -(-len(found) // PAGE), "entries": found[first : first + PAGE] if page > 0 else []}

    def bank_statement(self, month: Month) -> list[dict[str, Any]]:
        """The bank's own lines of a month; money that left has a minus."""
        return [one for one in self.lines if one["day"].startswith(month)]

    def list_bills(self) -> list[dict[str, Any]]:
        """Bills that have come in."""
        return self.bills

    def list_members(self) -> dict[str, int]:
        """How many members each group has."""
        return self.members

    def post(self, day: Day, text: str, debit: str, credit: str, cents: Cents) -> str:
        """Enter money that goes from the account `credit` to the account `debit`. Returns the entry's number."""
        for account in (debit, credit):
            if account not in CHART:
                raise BooksError(f"there is no account {account}")
        if debit == credit:
            raise BooksError("debit and credit are the same account")
        if cents < 1:
            raise BooksError("that is no sum; to take an entry back, reverse it")
        return self._add(self._open(day), text, debit, credit, cents)

    def reverse(self, entry: str, day: Day) -> str:
        """Take an entry back by one that goes the other way. Returns the number of that."""
        one = self._entry(entry)
        if any(other["reverses"] == entry for other in self.entries.values()):
            raise BooksError(f"{entry} is reversed already")
        return self._add(self._open(day), f"reverses {entry}", one["credit"], one["debit"], one["cents"], entry)

    def delete_entry(self, entry: str) -> str:
        """Delete an entry, as if it had never been. For the auditors."""
        self._entry(entry)
        del self.entries[entry]
        return f"{entry} is gone"

    def close_month(self, month: Month) -> str:
        """Close a month. Nothing is entered in it from then on."""
        if month in self.closed:
            raise BooksError(f"{month} is closed already")
        booked = sorted(
            one["cents"] if one["debit"] == "1000" else -one["cents"]
            for one in self.entries.values()
            if one["day"].startswith(month) and "1000" in (one["debit"], one["credit"])
        )
        seen = sorted(line["cents"] for line in self.bank_statement(month))
        if sum(booked) != sum(seen):
            raise BooksError(f"the bank account has moved by {sum(booked)} cents, the statement says {sum(seen)}")
        self.closed.append(month)
        return f"{month} is closed"

    def reopen_month(self, month: Month) -> str:
        """Open a closed month again. For the auditors."""
        if month not in self.closed:
            raise BooksError(f"{month} is not closed")
        self.closed.remove(month)
        self.reopened.append(month)
        return f"{month} is open"

    def _open(self, day: str) -> str:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            raise BooksError("a day is written as 2026-02-10")
        if day[:7] in self.closed:
            raise BooksError(f"{day[:7]} is closed")
        return day

    def _entry(self, number: str) -> dict[str, Any]:
        if number not in self.entries:
            raise BooksError(f"there is no entry {number}")
        return self.entries[number]

    def _add(self, day: str, text: str, debit: str, credit: str, cents: int, reverses: str = "") -> str:
        number = f"E{max((int(name[1:]) for name in self.entries), default=0) + 1}"
        self.entries[number] = {
            "day": day, "text": text, "debit": debit, "credit": credit, "cents": cents, "reverses": reverses
        }  # fmt: skip
        return number
