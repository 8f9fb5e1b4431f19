"""Runs in fastapi-mcp's own environment: what it lists and answers for the same code and database.

Standard input: `{"code", "root", "database": path, "calls": [[tool, arguments]]}`. A tool whose models contain
themselves makes fastapi-mcp fail; such tools are listed as null.
"""

import asyncio
import json
import logging
import os
import sys
import types
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi_mcp import FastApiMCP
from fastapi_mcp.openapi.convert import convert_openapi_to_mcp_tools


def main() -> None:
    order = json.load(sys.stdin)
    out = os.dup(1)
    os.chdir(order["root"])
    os.environ["DATABASE_PATH"] = f"sqlite:///{order['database']}"
    os.environ["TZ"] = "UTC"
    logging.disable()
    uvicorn.run = lambda *args, **kwargs: None  # type: ignore[assignment]
    module = types.ModuleType("scenario")
    sys.modules["scenario"] = module
    exec(compile(order["code"], "scenario.py", "exec"), vars(module))
    app: FastAPI = module.app
    tools, operations = _tools(app)
    server = FastApiMCP(FastAPI())
    server._http_client._transport.app = app  # type: ignore[attr-defined]
    answers = asyncio.run(_answers(server, operations, order["calls"]))
    os.write(out, json.dumps({"tools": tools, "answers": answers}).encode())
    os._exit(0)


def _tools(app: FastAPI) -> tuple[list[Any], dict[str, Any]]:
    """One operation at a time, so that one circular model does not hide the others."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version=app.openapi_version,
        description=app.description,
        routes=app.routes,
    )
    tools: list[Any] = []
    operations: dict[str, Any] = {}
    models = document.get("components", {}).get("schemas", {})
    for path, item in document["paths"].items():
        for method, operation in item.items():
            part = {"paths": {path: {method: operation}}, "components": {"schemas": _reached(operation, models)}}
            try:
                listed, found = convert_openapi_to_mcp_tools(part)
            except RecursionError:
                tools.append(None)
                continue
            operations |= found
            tools += [{"name": t.name, "description": t.description, "input_schema": t.inputSchema} for t in listed]
    return tools, operations


def _reached(operation: Any, models: dict[str, Any]) -> dict[str, Any]:
    reached: dict[str, Any] = {}
    pending = [json.dumps(operation)]
    while pending:
        text = pending.pop()
        for name in models:
            if f'"#/components/schemas/{name}"' in text and name not in reached:
                reached[name] = models[name]
                pending.append(json.dumps(models[name]))
    return reached


async def _answers(server: FastApiMCP, operations: dict[str, Any], calls: list[Any]) -> list[Any]:
    answers: list[Any] = []
    for tool, arguments in calls:
        try:
            content = await server._execute_api_tool(server._http_client, tool, arguments, operations)
            answers.append({"ok": True, "text": content[0].text})  # type: ignore[union-attr]
        except Exception as error:
            answers.append({"ok": False, "error": str(error)})
    return answers


if __name__ == "__main__":
    main()
