"""What a call came to: the response as text, or what went wrong, by cause."""

import codecs
import json
from typing import Any

from .asgi import HttpResponse

MAX_RESULT = 10 * 2**20
"""Bytes of UTF-8 that a result may have."""

_MAX_DETAIL = 8 * 2**10


def answer(tool: str, response: HttpResponse) -> dict[str, Any]:
    """The answer of a call that reached the application."""
    status = response.status
    if response.too_large:
        return _too_large(tool, f"more than {len(response.body)}")
    if status is None or not response.complete:
        return failure("server_error", f"{tool} failed inside the application{_raised(response)}", 500)
    if status >= 500:
        detail = _raised(response) if response.error is not None else f": {_detail(response)}"
        return failure("server_error", f"{tool} answered {status}{detail}", status)
    if status >= 400:
        cause = "invalid_args" if status == 422 else "tool_error"
        return failure(cause, f"{tool} answered {status}: {_detail(response)}", status)
    text = _text(response)
    data = text.encode("utf-8", "replace")  # half a surrogate pair cannot leave as UTF-8
    if len(data) > MAX_RESULT:
        return _too_large(tool, str(len(data)))
    return {"status": "ok", "text": text if text.isascii() else data.decode(), "http_status": status}


def failure(cause: str, error: str, http_status: int | None = None) -> dict[str, Any]:
    """An answer that is an error."""
    return {
        "status": cause,
        "error": error.encode("utf-8", "replace").decode(),
        "http_status": http_status,
    }


def _too_large(tool: str, size: str) -> dict[str, Any]:
    return failure(
        "tool_error",
        f"the result of {tool} has {size} bytes, over the limit of {MAX_RESULT} (10 MiB); ask for less",
    )


def _raised(response: HttpResponse) -> str:
    # Only the kind of exception: messages may hold object addresses, which differ from process to process.
    return f" ({type(response.error).__name__})" if response.error is not None else ""


def _text(response: HttpResponse) -> str:
    body = bytes(response.body)
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return _decoded(response)


def _decoded(response: HttpResponse) -> str:
    charset = ""
    for part in response.header(b"content-type").split(";")[1:]:
        key, _, value = part.strip().partition("=")
        if key.lower() == "charset":
            charset = value.strip("\"' ")
    try:
        return response.body.decode(codecs.lookup(charset).name if charset else "utf-8", "replace")
    except (LookupError, ValueError):
        return response.body.decode("utf-8", "replace")


def _detail(response: HttpResponse) -> str:
    """The application's reason, on one line where it is a list of validation errors."""
    try:
        content = json.loads(bytes(response.body))
    except (ValueError, RecursionError):
        content = _decoded(response)
    detail = content.get("detail", content) if isinstance(content, dict) else content
    if isinstance(detail, list):
        text = "; ".join(_problem(item) for item in detail)
    else:
        text = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
    return text[:_MAX_DETAIL] or "no reason given"


def _problem(item: Any) -> str:
    if isinstance(item, dict) and isinstance(item.get("msg"), str):
        parts = [str(part) for part in item.get("loc") or ()]
        place = ".".join(part for part in parts if part != "body") or ("the arguments" if parts else "")
        return f"{place}: {item['msg']}" if place else item["msg"]
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
