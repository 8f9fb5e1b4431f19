"""The plain HTTP routes: what the server is, its schemas, its figures, and where episodes are not served."""

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quintain import __version__
from quintain.contracts.observation import AwmObservation, State
from quintain.contracts.tools import ACTION
from quintain.episodes.admission import Admission
from quintain.server.hibernation import Hibernator
from quintain.server.messages import JsonObject, encode
from quintain.server.metrics import CONTENT_TYPE
from quintain.server.recording import Recording
from quintain.server.scopes import scope_of
from quintain.server.sessions import SessionRegistry

API_VERSION: Final = "1.0.0"
"""Version of OpenEnv's HTTP interface."""

NO_EPISODES_OVER_HTTP: Final[JsonObject] = {
    "error": "episodes cannot be played over plain HTTP",
    "reason": "An episode lives in a session, and an HTTP request belongs to none, so nothing it began could go on.",
    "solution": "Connect to the WebSocket at /ws and send reset and step messages there",
    "examples": [
        "quintain.clients.AWMEnv(base_url='http://HOST:PORT') connects to /ws by itself",
        "any WebSocket client: ws://HOST:PORT/ws",
    ],
}


_PLAIN: Final = str.maketrans("/", "_", "{}")


def json_response(value: Any, status: int = 200) -> Response:
    """A JSON response, in ASCII."""
    return Response(encode(value), status_code=status, media_type="application/json")


async def health(_request: Request) -> Response:
    """GET /health."""
    return json_response({"status": "healthy"})


async def metadata(_request: Request) -> Response:
    """GET /metadata."""
    return json_response(
        {
            "name": "AWMEnvironment",
            "description": "Agent World Model scenarios, each episode in a sandbox of its own; served by Quintain",
            "readme_content": None,
            "version": __version__,
            "author": None,
            "documentation_url": None,
        }
    )


async def schema(_request: Request) -> Response:
    """GET /schema: JSON Schema of actions, observations and state."""
    return json_response(
        {
            "action": ACTION.json_schema(),
            "observation": AwmObservation.model_json_schema(),
            "state": State.model_json_schema(),
        }
    )


async def state(_request: Request) -> Response:
    """GET /state: a request belongs to no session, so there is no episode to tell of."""
    return json_response(State().model_dump())


async def not_over_http(_request: Request) -> Response:
    """POST /reset and POST /step."""
    return json_response(NO_EPISODES_OVER_HTTP, status=400)


async def stats(request: Request) -> Response:
    """GET /stats."""
    registry: SessionRegistry = request.app.state.registry
    hibernator: Hibernator = request.app.state.hibernator
    admission: Admission = request.app.state.admission
    recording: Recording = request.app.state.recording
    told = figures(registry, hibernator, admission) | recording.figures()
    return json_response({**registry.stats(scope_of(request)), "quintain": told})


async def metrics(request: Request) -> Response:
    """GET /metrics: the server's figures as Prometheus reads them."""
    recording: Recording = request.app.state.recording
    return Response(recording.metrics.text(), media_type=CONTENT_TYPE)


def figures(registry: SessionRegistry, hibernator: Hibernator, admission: Admission) -> JsonObject:
    """What Quintain adds to the statistics."""
    sessions = list(registry)
    return {
        "sessions": len(sessions),
        "live": sum(session.awm.live for session in sessions),
        "hibernated": sum(session.awm.hibernated for session in sessions),
        "queued": admission.queued,
        "available_memory_bytes": admission.available_bytes,
        "hibernations": hibernator.done,
        "failed_hibernations": hibernator.failed,
    }


def gauges(registry: SessionRegistry, hibernator: Hibernator, admission: Admission) -> dict[str, float]:
    """Of these, what `/metrics` tells."""
    told = figures(registry, hibernator, admission)
    return {
        "sessions": told["sessions"],
        "live_episodes": told["live"],
        "hibernated_episodes": told["hibernated"],
        "queued_resets": told["queued"],
        "available_memory_bytes": told["available_memory_bytes"],
        "hibernations_total": told["hibernations"],
        "failed_hibernations_total": told["failed_hibernations"],
    }


async def openapi(request: Request) -> Response:
    """GET /openapi.json, made from the routes themselves."""
    return json_response(openapi_document(request.app.routes))


def openapi_document(routes: list[BaseRoute]) -> JsonObject:
    """OpenAPI of HTTP routes: their paths, methods and first docstring lines."""
    paths: dict[str, JsonObject] = {}
    for route in routes:
        if not isinstance(route, Route) or not route.include_in_schema:
            continue
        summary = (route.endpoint.__doc__ or "").strip().splitlines()[0]
        for method in sorted((route.methods or set()) - {"HEAD"}):
            paths.setdefault(route.path, {})[method.lower()] = {
                "summary": summary,
                "operationId": f"{route.name}_{route.path.strip('/').translate(_PLAIN)}_{method.lower()}",
                **_parameters(route.path),
                "responses": {"200": {"description": "JSON", "content": {"application/json": {"schema": {}}}}},
            }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Quintain, an OpenEnv environment server",
            "version": API_VERSION,
            "description": "Episodes are played over the WebSocket at /ws.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "paths": paths,
    }


def _parameters(path: str) -> JsonObject:
    """What OpenAPI says of the parameters in a path; nothing where there are none."""
    names = re.findall(r"{(\w+)}", path)
    told = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {"parameters": told} if told else {}
