"""What a reader pays for a book that comes back late."""


def fee(days_late: int, cents_per_day: int, most_cents: int) -> int:
    """The fee in cents: so much for each day, and never over the most."""
    return days_late * cents_per_day
