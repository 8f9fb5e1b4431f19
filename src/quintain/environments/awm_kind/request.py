"""A tool's arguments as a request to its endpoint."""

import json
import re
from typing import Any
from urllib.parse import quote, urlencode

from .asgi import HttpRequest
from .tools import Operation

SLASH = "\ue000\N{DIVISION SLASH}\ue000"
"""Stands for a slash inside a path argument while the request is routed, so that it cannot reach another route."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class InvalidArgumentsError(Exception):
    """Arguments that cannot be put into a request at all."""


def build(operation: Operation, arguments: dict[str, Any]) -> HttpRequest:
    """Place arguments: path, query and header parameters by name, everything else in the body.

    A null parameter is not sent. With nothing left there is no body.

    Raises:
        InvalidArgumentsError: not JSON, or a path argument is missing or empty.
    """
    try:
        _json(arguments)
    except RecursionError:
        raise InvalidArgumentsError("they are nested too deeply") from None
    except ValueError as error:  # NaN, an infinity, or half of a surrogate pair
        raise InvalidArgumentsError(f"they are not JSON ({error})") from None
    return _build(operation, dict(arguments))


def _build(operation: Operation, rest: dict[str, Any]) -> HttpRequest:
    in_path: dict[str, str] = {}
    query: list[tuple[str, str]] = []
    headers: list[tuple[bytes, bytes]] = []
    for argument in operation.arguments:
        if argument.place == "body" or argument.name not in rest:
            continue
        value = rest.pop(argument.name)
        if value is None:
            continue
        if argument.place == "path":
            in_path[argument.name] = _text(value)
        elif argument.place == "query":
            values = value if isinstance(value, list) else [value]
            query += [(argument.name, _text(one)) for one in values if one is not None]
        else:
            headers.append((argument.name.lower().encode(), _text(value).encode()))
    body = b""
    if rest and (operation.has_body or operation.method in ("POST", "PUT", "PATCH")):
        kind, body = _body(operation, rest)
        headers += [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    path = _filled(operation.path, {name: text.replace("/", SLASH) for name, text in in_path.items()})
    raw_path = _filled(operation.path, {name: quote(text, safe="") for name, text in in_path.items()})
    return HttpRequest(operation.method, path, raw_path.encode(), urlencode(query).encode(), tuple(headers), body)


def _filled(path: str, values: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        text = values.get(match[1])
        if not text:
            problem = "missing" if text is None else "empty"
            raise InvalidArgumentsError(f"{match[1]} is {problem}, and the address of the endpoint needs it")
        return text

    return _PLACEHOLDER.sub(value, path)


def _body(operation: Operation, rest: dict[str, Any]) -> tuple[bytes, bytes]:
    if not operation.is_form:
        return b"application/json", _json(rest)
    fields = [
        (name, _text(one))
        for name, value in rest.items()
        for one in (value if isinstance(value, list) else [value])
        if one is not None
    ]
    return b"application/x-www-form-urlencoded", urlencode(fields).encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return _json(value).decode() if isinstance(value, dict | list) else str(value)
