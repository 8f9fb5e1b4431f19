"""When the processors of this host have nothing else to do."""

import asyncio

_MOMENT_S, _LONGEST_S = 0.02, 1.0
_IDLE_SHARE = 0.2


async def idle_time() -> None:
    """Wait until the processors of this host were idle for a part of a moment."""
    moment = _MOMENT_S
    while True:
        idle, total = _processor_time()
        await asyncio.sleep(moment)
        idle, total = (now - then for now, then in zip(_processor_time(), (idle, total), strict=True))
        if idle >= _IDLE_SHARE * total:
            return
        moment = min(2 * moment, _LONGEST_S)


def _processor_time() -> tuple[int, int]:
    """Ticks that all processors were idle, and all ticks; as good as idle where the kernel does not tell."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(value) for value in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks[3:5]), sum(ticks)
