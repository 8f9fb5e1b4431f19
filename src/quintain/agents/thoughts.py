"""A model's thoughts, where its endpoint leaves them in the text: they are no part of what it says."""

import re
from typing import Final

BEGIN: Final = "<think>"
END: Final = "</think>"

_THOUGHTS: Final = re.compile(f"{BEGIN}.*?({END}|$)", re.DOTALL)


def after_lead(text: str) -> str:
    """The text after a thought that an endpoint's template has begun, so that the message holds its end alone."""
    head, ended, rest = text.partition(END)
    return rest if ended and BEGIN not in head else text


def spoken(text: str) -> str:
    """A message without the model's thoughts."""
    return _THOUGHTS.sub("", after_lead(text)).strip()
