"""Putting parcels on vans."""


def share(total, vans):
    """Share a weight over vans as evenly as it goes: whole kilograms, the heavier loads first."""
    least, more = divmod(total, vans)
    return [least + 1] * more + [least] * (vans - more)


def fill(weights, limit):
    """Put weights on vans in their order; a van that would be over its limit leaves, and the next one begins."""
    vans = [[]]
    for weight in weights:
        if sum(vans[-1]) + weight > limit:
            vans.append([])
        vans[-1].append(weight)
    return vans
