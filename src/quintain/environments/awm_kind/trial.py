"""Something tried in a forked child, so that this process keeps no trace of it."""

import contextlib
import os
import resource
import select
import signal
import warnings
from collections.abc import Callable

_TIME_LIMIT_S = 10.0
_CPU_LIMIT_S = 4  # what takes longer than this on an idle host is worth nobody's waiting; counts no time of others
_PASSED = b"passed"


def reason(attempt: Callable[[], str | None], time_limit_s: float = _TIME_LIMIT_S) -> str | None:
    """What `attempt` returns in a child process: None, or the reason why it failed.

    A child that raises, dies or takes too long has failed.
    """
    reading, writing = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: the caller looked
            pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return f"no child could be forked to find out: {error}"
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        # it ends itself: a template may signal no other process
        signal.setitimer(signal.ITIMER_REAL, time_limit_s)
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT_S, _CPU_LIMIT_S))
        _report(attempt, writing)
    os.close(writing)
    try:
        return _outcome(reading, time_limit_s)
    finally:
        os.close(reading)
        with contextlib.suppress(ChildProcessError):  # where the system reaps children itself
            os.waitpid(pid, 0)


def _report(attempt: Callable[[], str | None], writing: int) -> None:
    result = b"the trial raised an exception"
    try:
        why = attempt()
        result = _PASSED if why is None else why.encode("utf-8", "replace")[:1000]
    except BaseException as error:
        result = f"the trial raised {type(error).__name__}".encode()
    finally:
        os.write(writing, result)
        os._exit(0)


def _outcome(reading: int, time_limit_s: float) -> str | None:
    ready, _, _ = select.select([reading], [], [], 2 * time_limit_s)
    result = os.read(reading, 4096) if ready else b""
    if result == _PASSED:
        return None
    return result.decode("utf-8", "replace") or f"the trial ended without a result within {time_limit_s:g} s"
