"""What `server/app.py` of a packaged pack runs: the pack's server, as a program or as an ASGI application."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from quintain.cli import options
from quintain.episodes.assembly import open_rooms
from quintain.server import http
from quintain.server.app import create_app, is_loopback
from quintain.server.recording import open_recording
from quintain.server.settings import Settings, load_settings

PORT: Final = "8000"
"""Where OpenEnv's containers listen."""


def serve_pack(pack: Path) -> None:
    """`quintain serve` for a pack, on port 8000 unless QUINTAIN_PORT names another; options are the program's own."""
    from quintain.cli.main import main

    os.environ.setdefault("QUINTAIN_PORT", PORT)
    sys.argv[1:] = ["serve", "--pack", str(pack), *sys.argv[1:]]
    main()


class PackApp:
    """A pack's server as an ASGI application, for `uvicorn server.app:app`. It opens when the application starts.

    Which address it listens on is not told, so without a token every request that comes not over loopback is refused.
    """

    def __init__(self, pack: Path) -> None:
        self._pack = pack
        self._served: ASGIApp | None = None
        self._guarded = True
        self._outer = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._outer(scope, receive, send)
        elif self._served is None:
            await _refused("the server has not started; run it with a lifespan", 503, scope, receive, send)
        elif not self._guarded and not is_loopback((scope.get("server") or ("", None))[0]):
            error = "others can reach this address, and there is no QUINTAIN_TOKEN; set a token"
            await _refused(error, 403, scope, receive, send)
        else:
            await self._served(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        settings = load_settings(packs=(str(self._pack),))
        self._guarded = settings.token is not None or settings.tokens is not None
        async with AsyncExitStack() as stack:
            app = await _opened(stack, settings)
            await stack.enter_async_context(app.router.lifespan_context(app))
            self._served = app
            try:
                yield
            finally:
                self._served = None


async def _opened(stack: AsyncExitStack, settings: Settings) -> Starlette:
    source = options.without_quarantined(settings, stack.enter_context(options.open_source(settings)))
    registry = options.registry_in_force(settings)
    assembly = replace(options.assembly(settings), ledger=settings.ledger, ahead=True)
    rooms = await stack.enter_async_context(open_rooms(source, assembly))
    recording = await stack.enter_async_context(open_recording(settings, rooms.run))
    options.tell_shortfall(rooms)
    return create_app(settings, rooms, judge=options.judge(settings), tasks=registry, recording=recording)


async def _refused(error: str, status: int, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": error})
    else:
        await http.json_response({"error": error}, status=status)(scope, receive, send)
