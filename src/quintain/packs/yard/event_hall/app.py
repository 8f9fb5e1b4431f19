"""The desk of a house with rooms to let."""

from datetime import date
from typing import Annotated, Any, Literal

TODAY = date(2026, 2, 10)
Slot = Literal["morning", "afternoon", "evening"]
Day = Annotated[str, "a date, as 2026-03-14"]
RULES = {
    "choosing": "Guests get the smallest room that seats them all and is free.",
    "cancelling": "Until 14 days before the day all is paid back, until 7 days before it half, later nothing. "
    "Whole euros, rounded down. Nobody at the desk may make exceptions.",
    "others": "A booking, firm or optional, is cancelled or moved for those who made it and for nobody else.",
    "series": "Of a series of four or more dates for one guest the dearest date is free of charge.",
}


class HallError(Exception):
    """The house does not allow it."""


class Hall:
    """Rooms, who has them when, and what was paid back."""

    def __init__(
        self,
        rates: dict[str, int] | None = None,
        bookings: list[dict[str, Any]] | None = None,
        closed: list[str] | None = None,
    ) -> None:
        rates = rates or {}
        self.rooms = {
            "Alcove": {"seats": 20, "rate": rates.get("Alcove", 60), "step_free": True},
            "Cellar": {"seats": 45, "rate": rates.get("Cellar", 80), "step_free": False},
            "Gallery": {"seats": 60, "rate": rates.get("Gallery", 140), "step_free": True},
            "Great room": {"seats": 120, "rate": rates.get("Great room", 260), "step_free": True},
        }
        self.bookings = {f"B{one['number']}": self._entry(**one) for one in bookings or []}
        self.closed = closed or []
        self.refunds: list[dict[str, Any]] = []

    def list_rooms(self) -> dict[str, Any]:
        """All rooms: seats, rate per slot in euros, and whether one gets in without steps."""
        return self.rooms

    def calendar(self, day: Day) -> list[dict[str, Any]]:
        """All bookings of a day."""
        return [{"booking": number, **one} for number, one in self.bookings.items() if one["day"] == day]

    def find_bookings(self, who: str) -> list[dict[str, Any]]:
        """All bookings of those whose name holds these letters."""
        return [
            {"booking": number, **one} for number, one in self.bookings.items() if who.lower() in one["who"].lower()
        ]

    def read_rule(self, topic: str) -> str:
        """A rule of the house.

        Args:
            topic: choosing, cancelling, others or series
        """
        if topic not in RULES:
            raise HallError(f"there are rules about {', '.join(RULES)}")
        return RULES[topic]

    def book(self, room: str, day: Day, slot: Slot, who: str, people: int) -> str:
        """Book a room. Returns the booking's number.

        Args:
            who: the guest's name
            people: how many come
        """
        self.place(room, day, slot, people)
        number = f"B{max((int(one[1:]) for one in self.bookings), default=100) + 1}"
        self.bookings[number] = {"room": room, "day": day, "slot": slot, "who": who, "people": people}
        return number

    def change(self, booking: str, room: str, day: Day, slot: Slot, people: int) -> str:
        """Move a booking to another room or time, or for another number of people. It keeps its number."""
        old = self._booking(booking)
        self.place(room, day, slot, people, but=booking)
        self.bookings[booking] = {**old, "room": room, "day": day, "slot": slot, "people": people}
        return f"{booking} is now {room}, {day}, {slot}"

    def cancel(self, booking: str) -> str:
        """Cancel a booking. Nothing is paid back by that."""
        self._booking(booking)
        del self.bookings[booking]
        return f"{booking} is cancelled"

    def pay_back(self, booking: str, euros: int) -> str:
        """Pay money back for a booking, cancelled or not. The desk's money leaves at once."""
        if euros < 1:
            raise HallError("that is no sum to pay back")
        self.refunds.append({"booking": booking, "euros": euros})
        return f"{euros} euros were paid back for {booking}"

    def place(self, room: str, day: str, slot: str, people: int, but: str = "") -> None:
        """Whether so many can have a room then."""
        if room not in self.rooms:
            raise HallError(f"there are the rooms {', '.join(self.rooms)}")
        try:
            if date.fromisoformat(day) < TODAY:
                raise HallError("that day is over")
        except ValueError:
            raise HallError("a day is written as 2026-03-14") from None
        if not 1 <= people <= self.rooms[room]["seats"]:
            raise HallError(f"{room} seats {self.rooms[room]['seats']}")
        if f"{room} {day}" in self.closed:
            raise HallError(f"{room} is closed on {day} for repairs")
        for number, one in self.bookings.items():
            if number != but and (one["room"], one["day"], one["slot"]) == (room, day, slot):
                raise HallError(f"{room} is taken then by {one['who']} ({number})")

    def _booking(self, number: str) -> dict[str, Any]:
        if number not in self.bookings:
            raise HallError(f"there is no booking {number}")
        return self.bookings[number]

    @staticmethod
    def _entry(room: str, day: str, slot: str, who: str, people: int = 10, **_: Any) -> dict[str, Any]:
        return {"room": room, "day": day, "slot": slot, "who": who, "people": people}
