"""What counts as a secret in a text: known shapes, strings too random to be words, and personal data if asked for.

The shapes are those that their issuers publish, and those that gitleaks and detect-secrets look for.
"""

import base64
import binascii
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

Span = tuple[int, int, str]
"""Begin, end and kind of a secret in a text."""

_BEFORE: Final = r"(?<![A-Za-z0-9_])"
_DIGIT: Final = r"(?=[^\s\"'\\,;&<>]{0,200}[0-9])"
_LETTER: Final = r"(?=[^\s\"'\\,;&<>]{0,200}[A-Za-z])"
# keys of issuers that begin them with a word; a digit in it tells a key from a name such as `pk_order_items`
_VENDORS: Final = ("hf_", "gsk_", "nvapi-", "xai-", "r8_", "pplx-", "key-", "dckr_pat_", "npm_", "dop_v1_", "SG.")
_STRIPE_LIKE: Final = ("sk-", "sk_", "pk-", "pk_", "rk-", "rk_")
_ASSIGNED: Final = (
    r"(?i:api[_-]?key|secret|passw(?:or)?d|(?:access|auth|refresh|session|api)[_-]?token|private[_-]?key)"
)

_SHAPES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    # kind, pattern (the secret is the group `s`, or else all of it), texts of which one must be there
    (
        "private_key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?P<s>[^\"']{1,20000}?)(?:-----END |(?=\\*[\"'])|\Z)",
        ("PRIVATE KEY",),
    ),
    ("jwt", _BEFORE + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", ("eyJ",)),
    (
        "url_password",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/?#@:\"'\\<>]{0,200}:(?P<s>[^\s/?#@\"'\\<>]{1,200})@",
        ("://",),
    ),
    (
        "bearer_token",
        r"(?i:bearer|basic|token)[ :=]{1,3}(?P<s>(?=[^\s\"'\\,;&<>]{0,4096}[0-9=])[A-Za-z0-9_.~+/-]{16,4096}={0,2})",
        ("ear", "EAR", "asic", "ASIC", "oken", "OKEN"),
    ),
    ("api_key", _BEFORE + r"(?:sk|pk|rk)[-_]" + _DIGIT + r"[A-Za-z0-9_-]{16,}", _STRIPE_LIKE),
    ("api_key", _BEFORE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])", ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("api_key", _BEFORE + r"AIza[A-Za-z0-9_-]{35}", ("AIza",)),
    ("api_key", _BEFORE + r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})", ("gh", "github_pat_")),
    ("api_key", _BEFORE + r"glpat-[A-Za-z0-9_-]{20,}", ("glpat-",)),
    (
        "api_key",
        _BEFORE + f"(?:{'|'.join(map(re.escape, _VENDORS))})" + _DIGIT + r"[A-Za-z0-9][A-Za-z0-9_.-]{22,}[A-Za-z0-9_-]",
        _VENDORS,
    ),
    ("api_key", _BEFORE + r"(?:hf|api_org)_[A-Za-z]{34}(?![A-Za-z0-9_])", ("hf_", "api_org_")),  # letters alone
    ("api_key", _BEFORE + r"xox[abeoprs]-[A-Za-z0-9-]{10,}", ("xox",)),
    ("api_key", _BEFORE + r"pypi-AgE[A-Za-z0-9_-]{30,}", ("pypi-",)),
    (
        "assigned_secret",
        _ASSIGNED
        + r"[A-Za-z_]{0,20}\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?P<s>"
        + _DIGIT
        + _LETTER
        + r"[^\s\"'\\,;&<>{}\[\]()]{12,200})",
        (":", "="),
    ),
)

_SHORTEST: Final = 15
"""No shape but a password in a URL is shorter."""

_COMPILED: Final = tuple((kind, re.compile(pattern, re.DOTALL), hints) for kind, pattern, hints in _SHAPES)

_CANDIDATE: Final = re.compile(r"(?<![A-Za-z0-9+/_.-])[A-Za-z0-9+/_-]{24,200}={0,2}(?![A-Za-z0-9+/_=-])")
_IDENTIFIER: Final = re.compile(
    r"(?:[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"
)
_WORD_LIKE: Final = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
MIN_ENTROPY: Final = 4.0
"""Bits per character, of its own letters, from which a string of 24 characters and more is no name."""

_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_PHONE: Final = re.compile(r"(?<![\w.+-])(?:\+[0-9]{1,3}[ .-]?)(?:\(?[0-9]{1,4}\)?[ .-]?){2,5}[0-9]{2,4}(?![\w-])"
                           r"|(?<![\w.+-])\(?[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4}(?![\w-])")  # fmt: skip
_CARD: Final = re.compile(r"(?<![\w.-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])")


def shapes(text: str) -> Iterator[Span]:
    """Secrets of a known shape."""
    if len(text) < _SHORTEST and "://" not in text:
        return
    for kind, pattern, hints in _COMPILED:
        if _any_in(hints, text):
            for match in pattern.finditer(text):
                group = "s" if "s" in pattern.groupindex else 0
                begin, end = match.span(group)
                if begin < end and not _is_ours(match[group], kind):
                    yield begin, end, kind


def _is_ours(text: str, kind: str) -> bool:
    """Whether it is a digest, an id or a number. What is called a secret where it stands may be bare hex digits."""
    if kind == "assigned_secret":
        return text.startswith(("sha256:", "cas://"))
    return _IDENTIFIER.fullmatch(text.removeprefix("sha256:")) is not None


def _any_in(hints: tuple[str, ...], text: str) -> bool:
    for hint in hints:  # noqa: SIM110 - twice as fast as any(), and this runs on every text there is
        if hint in text:
            return True
    return False


def random_strings(text: str) -> Iterator[Span]:
    """Strings too random to be words, names, paths, digests, UUIDs or numbers in base64."""
    if len(text) < 24:
        return
    for match in _CANDIDATE.finditer(text):
        if is_random(match[0]):
            yield match.start(), match.end(), "high_entropy"


def is_random(token: str) -> bool:
    """Whether a string looks drawn at random, as keys are."""
    if _IDENTIFIER.fullmatch(token):
        return False  # a digest, a UUID, a number: those are ours
    kinds = (any(map(str.isdigit, token)), any(map(str.isupper, token)), any(map(str.islower, token)))
    if sum(kinds) < 3 or entropy(token) < MIN_ENTROPY:
        return False
    words = sum(len(word) for word in _WORD_LIKE.findall(token))
    return words < len(token) * 0.6 and not is_numbers(token)


def is_numbers(token: str) -> bool:
    """Whether it is base64 of an array of numbers: token ids (32 or 64 bits) or log-probabilities (floats)."""
    try:
        data = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        return False
    for size, integer, real in ((4, "I", "f"), (8, "Q", "d")):
        if data and len(data) % size == 0:
            count = len(data) // size
            if all(number < 2**21 for number in struct.unpack(f"<{count}{integer}", data)):
                return True
            reals = struct.unpack(f"<{count}{real}", data)
            if count >= 4 and all(-1000 < number <= 0 and (number == 0 or number < -1e-12) for number in reals):
                return True
    return False


def entropy(token: str) -> float:
    """Shannon's, in bits per character, of the string's own distribution of characters."""
    counts = Counter(token).values()
    return -sum(count / len(token) * math.log2(count / len(token)) for count in counts)


def personal(text: str) -> Iterator[Span]:
    """E-mail addresses, telephone numbers, and card numbers whose check digit is right (Luhn)."""
    for kind, pattern in (("email", _EMAIL), ("card", _CARD), ("phone", _PHONE)):
        for match in pattern.finditer(text):
            if kind != "card" or luhn(match[0]):
                yield *match.span(), kind


def luhn(number: str) -> bool:
    """Whether a card number's check digit is right."""
    digits = [int(char) for char in number if char.isdigit()]
    doubled = sum(digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2])
    return any(digits) and (sum(digits[-1::-2]) + doubled) % 10 == 0


def spellings(value: str) -> frozenset[str]:
    """A credential as it may stand in a text: as it is, and in JSON, URLs, hex and base64, also amid other bytes."""
    raw = value.encode("utf-8", "replace")
    found = {value, *_in_json(value), quote(value, safe=""), quote(value), raw.hex(), raw.hex().upper()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # the characters that depend on the value alone, whatever stands before and behind it
            text = encode(bytes(before) + raw + bytes(2)).decode()
            found.add(text[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6])
    return frozenset(spelling for spelling in found if len(spelling) >= 6)


def _in_json(value: str) -> Iterator[str]:
    for ascii_only in (False, True):
        text = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (text, text.replace("/", "\\/"))


Finder = Callable[[str], Iterator[Span]]
