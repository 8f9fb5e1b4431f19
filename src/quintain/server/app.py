"""The server: an application made of route values, and how uvicorn runs it."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from quintain.contracts.terminal import TerminalReason
from quintain.episodes import Rooms
from quintain.errors import SettingsError
from quintain.server import http
from quintain.server.agent_plane import PREFIX, AgentPlane
from quintain.server.awm import AwmSession
from quintain.server.connection import PatientWebSocket
from quintain.server.hibernation import Hibernator
from quintain.server.mcp import mcp
from quintain.server.recording import Recording
from quintain.server.scopes import ScopedRooms, bind
from quintain.server.sessions import SessionRegistry
from quintain.server.settings import Settings
from quintain.server.task_routes import task_routes
from quintain.server.tokens import Holders
from quintain.server.websocket import websocket
from quintain.tasks.pooled import PoolScope
from quintain.tasks.registry import TaskRegistry
from quintain.verifiers import JudgeSettings

Closer = Callable[[], Awaitable[None]]


def routes() -> list[BaseRoute]:
    """The control plane's routes."""
    return [
        Route("/health", http.health, methods=["GET"]),
        Route("/metadata", http.metadata, methods=["GET"]),
        Route("/schema", http.schema, methods=["GET"]),
        Route("/state", http.state, methods=["GET"]),
        Route("/reset", http.not_over_http, methods=["POST"]),
        Route("/step", http.not_over_http, methods=["POST"]),
        Route("/mcp", mcp, methods=["POST"]),
        Route("/stats", http.stats, methods=["GET"]),
        Route("/metrics", http.metrics, methods=["GET"]),
        Route("/openapi.json", http.openapi, methods=["GET"], include_in_schema=False),
        WebSocketRoute("/ws", websocket),
    ]


def create_app(
    settings: Settings,
    rooms: Rooms,
    closers: Sequence[Closer] = (),
    judge: JudgeSettings | None = None,
    tasks: TaskRegistry | None = None,
    recording: Recording | None = None,
) -> Starlette:
    """The server's application.

    Args:
        judge: the rooms' own, over which a reset may name another.
        closers: called at shutdown, in order, when every session has ended (the sandbox providers' `close`).
        tasks: who may see which tasks; None: everyone sees all.
        recording: makes the episodes and sees each to its record; None: they are counted, and leave none.

    Raises:
        SettingsError: the tokens file cannot be used.
    """
    holders = Holders.read(settings)
    scoped = ScopedRooms(rooms, tasks)
    recorded = recording or Recording()
    registry = SessionRegistry(
        lambda scope: AwmSession(
            scoped.of(scope),
            call_timeout_s=settings.call_timeout_s,
            max_call_timeout_s=settings.max_call_timeout_s,
            keep_dir=settings.keep_dir,
            verify=settings.verify,
            judge=judge,
            recording=recorded,
        ),
        settings,
    )

    hibernator = Hibernator(registry, settings.hibernate_after_s)
    rooms.admission.relieve = hibernator.relieve

    async def drain() -> None:
        await recorded.drain(settings.shutdown_grace_s)

    if holders.anyone is None:
        middleware = [Middleware(BearerToken, holders=holders)]
    else:
        middleware = [Middleware(SameOrigin, anyone=holders.anyone)]
    agent_plane = Mount(PREFIX.rstrip("/"), AgentPlane(registry.agents, settings))
    app = Starlette(
        routes=[*routes(), agent_plane, *task_routes()],
        middleware=middleware,
        lifespan=_living(registry, hibernator, (drain, *closers)),
    )
    app.state.registry = registry
    app.state.scoped = scoped
    app.state.hibernator = hibernator
    app.state.admission = rooms.admission
    app.state.recording = recorded
    app.state.settings = settings
    recorded.metrics.watch(lambda: {**http.gauges(registry, hibernator, rooms.admission), **recorded.gauges()})
    return app


def _living(
    registry: SessionRegistry, hibernator: Hibernator, closers: Sequence[Closer]
) -> Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]:
    """What is kept up while the server runs; at the end every session is ended, and then the closers are called."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        keepers = [
            asyncio.create_task(registry.keep_reaping(), name="reap idle sessions"),
            asyncio.create_task(hibernator.keep_hibernating(), name="hibernate idle sessions"),
        ]
        try:
            yield
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await registry.close_all(TerminalReason.SERVER_SHUTDOWN)
            for close in closers:
                await close()

    return lifespan


class BearerToken:
    """Lets only requests with a token through, and binds them to what its holder may see.

    `/health` stays open for probes; agents have tokens of their own.
    """

    def __init__(self, app: ASGIApp, holders: Holders) -> None:
        self._app = app
        self._holders = holders

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan" or _open_to_all(scope["path"]):
            await self._app(scope, receive, send)
        elif (seen := self._holder(scope)) is not None:
            await self._app(bind(scope, seen), receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "a bearer token is needed"})
        else:
            answer = http.json_response({"error": "send the server's token: Authorization: Bearer TOKEN"}, status=401)
            await answer(scope, receive, send)

    def _holder(self, scope: Scope) -> PoolScope | None:
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        holder = self._holders.holder_of(given.strip())
        return holder if scheme.lower() == b"bearer" else None


def _open_to_all(path: str) -> bool:
    return path == "/health" or path.startswith(PREFIX)


class SameOrigin:
    """Keeps web pages of others away from a server without a token, which a browser on its machine can reach.

    A browser names the page's origin with every WebSocket and POST; other clients name none.
    """

    def __init__(self, app: ASGIApp, anyone: PoolScope) -> None:
        self._app = app
        self._anyone = anyone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan" or scope.get("method") in ("GET", "HEAD") or _own_origin(scope):
            await self._app(bind(scope, self._anyone), receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "not from a page of another origin"})
        else:
            error = "pages of another origin may not use this server; set QUINTAIN_TOKEN, or send no Origin header"
            await http.json_response({"error": error}, status=403)(scope, receive, send)


def _own_origin(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    origin = headers.get(b"origin")
    if origin is None:
        return True
    try:
        parts = urlsplit(origin.decode("ascii"))
        # a name that only resolves to this machine may be anyone's
        return is_loopback(parts.hostname or "") and parts.netloc.encode() == headers.get(b"host")
    except ValueError:
        return False


def refuse_open_address(settings: Settings) -> None:
    """Refuse to listen where others can reach the server without a token.

    Raises:
        SettingsError: the address is not loopback and there is no token.
    """
    if settings.token is None and settings.tokens is None and not is_loopback(settings.host):
        raise SettingsError(
            f"QUINTAIN_HOST is {settings.host!r}, which others can reach, and there is no QUINTAIN_TOKEN; "
            "set a token, or listen on 127.0.0.1"
        )


def uvicorn_config(settings: Settings, app: Starlette) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        ws=PatientWebSocket,
        ws_max_size=settings.max_message_bytes,
        ws_per_message_deflate=False,  # it costs more than it saves on the machines trainers and servers share
        ws_ping_interval=settings.ping_interval_s,
        ws_ping_timeout=settings.ping_timeout_s,
        timeout_graceful_shutdown=int(settings.shutdown_grace_s),
        access_log=False,
        log_level="warning",
        lifespan="on",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
