"""`python shifted.py LIBRARY serve ...`: the command line, with a library loaded ahead of all others in every sandbox.

The library answers for the C library's clock, so that the sandboxes live on another day than the host.
"""

import subprocess
import sys
from pathlib import Path

_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*ask)(clockid_t, struct timespec *);
    if (!ask) ask = dlsym(RTLD_NEXT, "clock_gettime");
    int result = ask(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += SHIFT;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}

time_t time(time_t *place) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place) *place = exact.tv_sec;
    return exact.tv_sec;
}
"""


def shifting_library(folder: Path, seconds: int) -> Path:
    """A library that moves the wall clock of whoever loads it, made by the host's C compiler."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_CLOCK)
    command = ["cc", "-shared", "-fPIC", "-O1", f"-DSHIFT={seconds}", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def main() -> None:
    """Serve with a shifted clock."""
    from quintain.cli.main import main as run
    from quintain.sandboxes.fork import launch

    library = sys.argv.pop(1)
    launch._ENVIRONMENT["LD_PRELOAD"] = library
    launch._SYSTEM_FILES = (*launch._SYSTEM_FILES, library)
    run()


if __name__ == "__main__":
    main()
