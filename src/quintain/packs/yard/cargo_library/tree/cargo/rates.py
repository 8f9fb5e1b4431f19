"""What a parcel costs."""

STEPS = [(2, 390), (5, 590), (10, 890), (30, 1690)]
"""Up to so many kilograms, so many cents."""


def rate(weight):
    """Cents for a parcel of a weight.

    Raises ValueError below 1 kg and above the last step.
    """
    if weight < 1:
        raise ValueError(f"{weight} kg is no weight")
    for limit, cents in STEPS:
        if weight <= limit:
            return cents
    raise ValueError(f"{weight} kg is too much")
