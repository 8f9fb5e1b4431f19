"""`quintain serve`: episodes over OpenEnv, until SIGTERM or SIGINT."""

import asyncio
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
import uvicorn

from quintain.cli import options
from quintain.episodes import Rooms
from quintain.episodes.assembly import open_rooms
from quintain.errors import SettingsError
from quintain.records.states import spool_states
from quintain.server.app import create_app, refuse_open_address, uvicorn_config
from quintain.server.recording import open_recording
from quintain.server.settings import Settings
from quintain.server.tokens import Holders
from quintain.tasks.quarantined import QuarantinedSource

_SWITCH_S = 0.0005  # the event loop takes over sooner from the threads that copy states and write the ledger


def serve(
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; other than loopback needs a token.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one. Default: 8899.")] = None,
    isolation: options.Isolation = None,
    quarantine: Annotated[
        Path | None,
        typer.Option(help="File with the tasks that are not served. Default: $QUINTAIN_QUARANTINE, or none."),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download the dataset into the cache (once) and serve it.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Serve episodes over the OpenEnv protocol."""
    settings = options.settings_with(
        data_dir=awm_data, packs=pack, host=host, port=port, isolation=isolation, quarantine=quarantine
    )
    refuse_open_address(settings)
    Holders.read(settings)  # here, so that what is wrong with tokens is told before anything else is
    if settings.keep_states and not settings.spool_size_mib:
        raise SettingsError("QUINTAIN_KEEP_STATES keeps states beside records, and QUINTAIN_SPOOL_SIZE=0 keeps none")
    if download:
        settings = settings.model_copy(update={"data_dir": options.download(settings)})
    with _listening(settings) as sock:
        try:
            options.run(_serve(settings, sock, as_json))
        except asyncio.CancelledError:
            return  # asked to end before it was ready


class _Ending:
    """Ends the server when a signal asks for it, at whatever moment: uvicorn listens for signals only later."""

    def __init__(self) -> None:
        self.server: uvicorn.Server | None = None
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        if self.server is not None:
            self.server.should_exit = True
        elif self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)


def _listening(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        sock = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
        # connections inherit it: the kernel cuts off a peer that reads nothing of what it asked for
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(settings.ping_timeout_s * 1000))
        return sock
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror}); choose another with --port"
        ) from error


async def _serve(settings: Settings, sock: socket.socket, as_json: bool) -> None:
    ending = _Ending()
    sys.setswitchinterval(_SWITCH_S)
    with options.open_source(settings) as everything:
        source = options.without_quarantined(settings, everything)
        registry = options.registry_in_force(settings)
        async with (
            open_rooms(source, replace(options.assembly(settings), ledger=settings.ledger, ahead=True)) as rooms,
            open_recording(settings, rooms.run) as recording,
        ):
            if settings.keep_states:
                rooms = replace(rooms, states=spool_states(settings.spool_dir))
            app = create_app(settings, rooms, judge=options.judge(settings), tasks=registry, recording=recording)
            ending.server = server = uvicorn.Server(uvicorn_config(settings, app))
            options.tell_shortfall(rooms)
            _announce(settings, sock, rooms, as_json)
            await server.serve(sockets=[sock])


def _announce(settings: Settings, sock: socket.socket, rooms: Rooms, as_json: bool) -> None:
    level, scenarios = rooms.provider.level, len(rooms.source.scenarios())
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{sock.getsockname()[1]}"
    if as_json:
        ready = {"event": "ready", "url": url, "isolation": str(level), "scenarios": scenarios}
        if isinstance(rooms.source, QuarantinedSource):
            ready["quarantined"] = len(rooms.source.entries)
        ready["spool"] = str(settings.spool_dir) if settings.spool_size_mib else None
        options.print_json(ready | ({"isolation_shortfall": rooms.shortfall} if rooms.shortfall else {}))
    else:
        options.console.print(f"serving {scenarios} scenarios at [bold]{url}[/], isolation {level}")
        options.console.print(options.plain(_told_of_records(settings)))


def _told_of_records(settings: Settings) -> str:
    if not settings.spool_size_mib:
        return "no records of episodes are kept (QUINTAIN_SPOOL_SIZE=0)"
    return (
        f"records of episodes{' and their states' if settings.keep_states else ''}: {settings.spool_dir}, up to "
        f"{settings.spool_size_mib} MiB; "
        "take them into the store with: quintain store ingest"
    )
