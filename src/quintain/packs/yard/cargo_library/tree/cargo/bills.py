"""Bills for parcels."""

from cargo.rates import rate


def bill_total(weights):
    """Cents for parcels of these weights."""
    return sum(rate(weight) for weight in weights)


def bill_lines(weights):
    """A line for each parcel, and one for all."""
    lines = [f"{weight} kg: {rate(weight)}" for weight in weights]
    return [*lines, f"total: {bill_total(weights)}"]
