"""What every room that talks to an endpoint of a model keeps to: checked addresses, secret keys, foreign text bounded.

An endpoint is any that answers OpenAI's `POST {base_url}/chat/completions`.
"""

import base64
import json
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, quote, urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError

from quintain.contracts.untrusted import printable, whole_text

MAX_TOLD: Final = 300
"""Most characters of an endpoint's own words in a message."""

_AZURE: Final = (".openai.azure.com", ".services.ai.azure.com")
_MIN_SECRET: Final = 6


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, brackets that do not close
        usable = False
    if not usable or any(char.isspace() or not char.isprintable() for char in url.strip()):
        raise ValueError("give the address that /chat/completions is appended to, such as https://host/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it may hold no user, query or fragment; a key goes into the api key")
    return f"{parts.scheme}://{parts.netloc.lower()}{_root(parts)}"


def _root(parts: SplitResult) -> str:
    path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    if not path and str(parts.hostname).endswith(_AZURE):
        return "/openai/v1"  # where Azure keeps what speaks this protocol
    return path


def _checked_key(key: SecretStr) -> SecretStr:
    text = key.get_secret_value().strip()
    # a character that no header may hold would come back within the HTTP library's error
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("a key is printable ASCII without spaces")
    return SecretStr(text)


BaseUrl = Annotated[str, Field(max_length=2048), AfterValidator(_checked_url)]
"""An endpoint's address, without `/chat/completions`."""

ApiKey = Annotated[SecretStr, AfterValidator(_checked_key)]
"""An endpoint's key. A field of it is declared with `repr=False, exclude=True`."""

ModelName = Annotated[str, Field(min_length=1, max_length=200)]
"""The name that an endpoint calls a model by."""


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for; None where it says nothing usable. `now` is seconds since 1970."""
    if value is None:
        return None
    try:
        if value.strip().isdecimal():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError, TypeError, IndexError):  # dates are parsed by trial
        return None


def without_key(text: str, api_key: SecretStr | None) -> str:
    """The text without the key, in whatever common spelling an endpoint may have sent it back."""
    key = api_key.get_secret_value() if api_key is not None else ""
    if len(key) < _MIN_SECRET:  # a placeholder for endpoints without keys
        return text
    for spelling in {key, quote(key, safe=""), json.dumps(key)[1:-1], base64.b64encode(key.encode()).decode()}:
        text = text.replace(spelling, "[key]")
    return text


def told_of(text: str, api_key: SecretStr | None, limit: int = MAX_TOLD) -> str:
    """Foreign text as a message may hold it: without the key, in one line, printable, not long."""
    line = " ".join(printable(whole_text(without_key(text, api_key))).split())
    return line if len(line) <= limit else line[:limit] + "..."


def error_of(data: bytes, api_key: SecretStr | None) -> str:
    """What the body of an error says, as the end of a sentence."""
    text = data.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    error = body.get("error", body) if isinstance(body, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    told = told_of(said if isinstance(said, str) else text, api_key)
    return f": {told}" if told else ""


def content_text(content: Any) -> str | None:
    """The text of a message's content, which may come in parts; None where it has none."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) and content.strip() else None


def problems_of(error: ValidationError, whose: str) -> str:
    """What is wrong with a user's values, by field and without the values, of which one may be a key."""
    return "; ".join(
        f"{whose} {'.'.join(map(str, item['loc']))}: {str(item['msg']).removeprefix('Value error, ')}"
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    )
