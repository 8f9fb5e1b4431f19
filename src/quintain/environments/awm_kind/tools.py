"""An application's operations as tools: names, descriptions and input schemas as FastAPI's MCP convention has them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from .schema import Resolver, example_of, finite, first_type, for_display

_METHODS = ("get", "post", "put", "delete", "patch")
_PLACES = ("path", "query", "header")
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Argument:
    """One argument of an operation. `source` is the OpenAPI parameter or, in a body, the property."""

    name: str
    place: str
    """path, query, header or body"""
    schema: dict[str, Any]
    required: bool
    source: dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """How to call one tool's endpoint."""

    name: str
    method: str
    path: str
    arguments: tuple[Argument, ...]
    has_body: bool
    is_form: bool


@dataclass(frozen=True)
class Toolset:
    """The tools as they are listed, in the document's order, and the operation behind each name."""

    listed: list[dict[str, Any]]
    operations: dict[str, Operation]


def toolset(app: FastAPI) -> Toolset:
    """The tools of an application."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version=app.openapi_version,
        description=app.description,
        routes=app.routes,
    )
    resolver = Resolver(document)
    listed, operations = [], {}
    for path, item in document.get("paths", {}).items():
        for method, described in item.items():
            if method not in _METHODS or not described.get("operationId"):
                continue
            operation = resolver.resolve(described)
            arguments = tuple(_arguments(operation))
            name = operation["operationId"]
            listed.append(
                {
                    "name": name,
                    "description": _description(method, path, operation),
                    "input_schema": _input_schema(name, arguments),
                }
            )
            content = operation.get("requestBody", {}).get("content", {})
            operations[name] = Operation(name, method.upper(), path, arguments, bool(content), _FORM in content)
    return Toolset(finite(listed), operations)


def _arguments(operation: Mapping[str, Any]) -> Iterator[Argument]:
    parameters = operation.get("parameters", [])
    for place in _PLACES:
        for parameter in parameters:
            if parameter.get("in") == place:
                required = parameter.get("required", place == "path")
                yield Argument(parameter["name"], place, parameter.get("schema", {}), required, parameter)
    content = operation.get("requestBody", {}).get("content", {})
    first: dict[str, Any] = next(iter(content.values()), {})
    schema = first.get("schema", {})
    for name, described in schema.get("properties", {}).items():
        yield Argument(name, "body", described, name in schema.get("required", ()), described)


def _input_schema(name: str, arguments: tuple[Argument, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    for argument in arguments:
        if argument.place == "header":  # sent when given, but not offered
            continue
        described = {**argument.schema, "title": argument.name}
        if argument.place != "body" and argument.source.get("description"):
            described["description"] = argument.source["description"]
        if "type" not in described:
            described["type"] = "string" if argument.place == "path" else first_type(argument.schema)
        properties[argument.name] = described
        if argument.required:
            required.append(argument.name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "title": f"{name}Arguments"}
    return schema | {"required": required} if required else schema


def _description(method: str, path: str, operation: Mapping[str, Any]) -> str:
    text = operation.get("summary") or f"{method.upper()} {path}"
    if operation.get("description"):
        text += f"\n\n{operation['description']}"
    responses = operation.get("responses", {})
    if not responses:
        return str(text)
    found: str | None = next((str(code) for code in range(200, 300) if str(code) in responses), None)
    success = responses[found] if found is not None else None
    shown: dict[str, Any] = {found: success} if found and success else responses
    return f"{text}\n\n### Responses:\n" + "".join(
        _response(code, response, success) for code, response in shown.items()
    )


def _response(code: str, response: Mapping[str, Any], success: Mapping[str, Any] | None) -> str:
    text = f"\n**{code}**: {response.get('description', '')}"
    if response == success:
        text += " (Success Response)"
    for kind, content in response.get("content", {}).items():
        if "schema" not in content:
            continue
        text += f"\nContent-Type: {kind}"
        example = _documented_example(content) or example_of(for_display(content["schema"]))
        if example:
            text += f"\n\n**Example Response:**\n```json\n{json.dumps(example, indent=2)}\n```"
    return text


def _documented_example(content: Mapping[str, Any]) -> Any:
    if "examples" in content:
        return next((one["value"] for one in content["examples"].values() if "value" in one), None)
    return content.get("example")
