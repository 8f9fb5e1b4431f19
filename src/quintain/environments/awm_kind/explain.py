"""An exception as a traceback for the log.

The standard library's formatting parses every source line it shows, which costs more than the call that failed.
"""

import linecache
import os
import traceback

_FRAMES = 30
_CHAIN = 8


def explained(error: BaseException) -> str:
    """The exception's chain, its first cause first: the last frames of each, with the scenario's source lines."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _CHAIN and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\n".join(_one(link) for link in reversed(chain))


def _one(error: BaseException) -> str:
    lines = []
    for frame, number in list(traceback.walk_tb(error.__traceback__))[-_FRAMES:]:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {number}, in {code.co_name}')
        if not os.path.isabs(code.co_filename):  # the scenario's own
            lines.append("    " + linecache.getline(code.co_filename, number).strip())
    if isinstance(error, BaseExceptionGroup):
        lines += [_one(inner) for inner in error.exceptions[:_CHAIN]]
    return "\n".join([*lines, *_message(error)]) + "\n"


def _message(error: BaseException) -> list[str]:
    try:
        return [line.rstrip() for line in traceback.format_exception_only(type(error), error)]
    except Exception:  # a message that cannot be made
        return [type(error).__name__]
