"""The HTTP that all exchanges with an endpoint share: no cookies, no redirects, no compression, bounded bodies."""

from collections.abc import AsyncIterator
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
from pydantic import SecretStr


class UnreadableBody(Exception):
    """A body that is not read on; the text says what is wrong with it, as the end of a sentence."""


def plain_client() -> httpx.AsyncClient:
    """A client for any number of endpoints."""
    # a cookie would travel from one session's exchange into another's
    cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    return httpx.AsyncClient(cookies=cookies, limits=limits, follow_redirects=False)


def json_headers(api_key: SecretStr | None, accept: str = "application/json") -> dict[str, str]:
    """The headers of a request with a JSON body."""
    headers = {"content-type": "application/json", "accept": accept, "accept-encoding": "identity"}
    return headers if api_key is None else headers | {"authorization": f"Bearer {api_key.get_secret_value()}"}


async def pieces(response: httpx.Response, limit: int) -> AsyncIterator[bytes]:
    """The body as it comes, at most `limit` bytes of it.

    Raises:
        UnreadableBody: it is larger, or compressed.
        httpx.HTTPError: the connection broke off.
    """
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise UnreadableBody("answered in a compressed form, which was not asked for")
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > limit:
            raise UnreadableBody(f"answered more than {limit} bytes")
        yield piece


async def whole_body(response: httpx.Response, limit: int) -> bytes:
    """The body. Raises what `pieces` raises."""
    return b"".join([piece async for piece in pieces(response, limit)])
