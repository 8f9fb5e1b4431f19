"""Control tokens: the file, and who holds which."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from quintain.errors import SettingsError
from quintain.server.app import refuse_open_address
from quintain.server.settings import Settings, load_settings
from quintain.server.tokens import Holders
from quintain.tasks.pools import Pool

NIGHTLY, RELEASE = "nightly-0123456789", "release-0123456789"


def one(**fields: Any) -> dict[str, Any]:
    return {"name": "nightly", "token": NIGHTLY, "pools": ["dev"], **fields}


def written(path: Path, *tokens: Any) -> Path:
    file = path / "tokens.json"
    file.write_text(json.dumps({"schema_version": 1, "tokens": tokens}))
    return file


def test_a_token_has_the_pools_of_its_holder(tmp_path: Path) -> None:
    release = one(name="release", token=RELEASE, pools=["blind", "dev"], milestone="release 1")
    defaults = {"name": "plain", "token": "plain-0123456789"}
    file = written(tmp_path, one(), release, defaults)
    holders = Holders.read(Settings(token=SecretStr("t-1"), tokens=file, token_pools=(Pool.TRAIN, Pool.DEV)))
    assert holders.anyone is None
    seen = {token: holders.holder_of(token.encode()) for token in ("t-1", NIGHTLY, RELEASE, "plain-0123456789")}
    assert [(scope.by, scope.words, scope.milestone) for scope in seen.values() if scope is not None] == [
        ("this token", "train, dev", None),
        ("nightly", "dev", None),
        ("release", "dev, blind", "release 1"),
        ("plain", "train", None),
    ]
    for token in ("", "t-", "t-11", NIGHTLY.upper(), NIGHTLY + " ", "\u00e9"):
        assert holders.holder_of(token.encode()) is None


def test_without_tokens_anyone_comes_in_with_the_pools_that_are_set() -> None:
    anyone = Holders.read(Settings()).anyone
    assert anyone is not None
    assert anyone.pools == {Pool.TRAIN}
    anyone = Holders.read(Settings(token_pools=(Pool.DEV,))).anyone
    assert anyone is not None
    assert anyone.pools == {Pool.DEV}


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        ([one(pools=["blind"])], "tokens.0: nightly may see blind tasks, so its milestone must be stated"),
        ([one(pools=["blind"], milestone=" ")], "tokens.0.milestone"),
        ([one(pools=[])], "tokens.0.pools"),
        ([one(pools=["test"])], "tokens.0.pools.0"),
        ([one(token="short")], "tokens.0.token"),
        ([one(name="two words")], "tokens.0.name"),
        ([one(colour="red")], "tokens.0.colour"),
        ([one(), one(name="other")], "a token stands twice"),
        ([one(), one(token=RELEASE)], "a name stands twice"),
        ([one(token="own-0123456789-x")], "or is QUINTAIN_TOKEN too"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_without_its_tokens(tmp_path: Path, tokens: list[Any], told: str) -> None:
    settings = Settings(token=SecretStr("own-0123456789-x"), tokens=written(tmp_path, *tokens))
    with pytest.raises(SettingsError, match="QUINTAIN_TOKENS") as caught:
        Holders.read(settings)
    assert told in str(caught.value)
    for token in (NIGHTLY, RELEASE, "own-0123456789-x", "short"):
        assert token not in str(caught.value).replace("shorter", "")


@pytest.mark.parametrize("data", ["", "[]", '{"schema_version": 1}', f'{{"{NIGHTLY}": 1, "{NIGHTLY}": 2}}', "\udcff"])
def test_what_is_no_tokens_file(tmp_path: Path, data: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_bytes(data.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError, match=r"QUINTAIN_TOKENS.*tokens\.json") as caught:
        Holders.read(Settings(tokens=file))
    assert NIGHTLY not in str(caught.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        Holders.read(Settings(tokens=tmp_path / "absent.json"))


def test_pools_are_set_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUINTAIN_TOKEN_POOLS", "train, regression")
    assert load_settings().token_pools == (Pool.TRAIN, Pool.REGRESSION)
    for text, told in (("blind", "milestone"), ("test", "QUINTAIN_TOKEN_POOLS"), (",", "QUINTAIN_TOKEN_POOLS")):
        monkeypatch.setenv("QUINTAIN_TOKEN_POOLS", text)
        with pytest.raises(SettingsError, match=told):
            load_settings()


def test_a_tokens_file_will_do_where_others_can_reach_the_server(tmp_path: Path) -> None:
    refuse_open_address(Settings(host="0.0.0.0", tokens=tmp_path / "tokens.json"))
