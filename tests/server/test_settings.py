"""Settings from the environment, and their table."""

from typing import Any

import pytest

from quintain.errors import SettingsError
from quintain.server.settings import Settings, load_settings, settings_table, variables


def test_defaults() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.max_concurrent_envs) == ("127.0.0.1", 8899, 10000)
    assert (settings.ready_timeout_s, settings.retry_ready_timeout_s, settings.max_port_retries) == (180.0, 30.0, 5)
    assert (settings.max_idle_time_s, settings.allowed_idle_sessions, settings.cleanup_interval_s) == (600.0, 3000, 5.0)
    assert (settings.llm_base_url, settings.llm_api_key, settings.llm_model, settings.token) == (None,) * 4


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("MAX_CONCURRENT_ENVS", "7", "max_concurrent_envs", 7),
        ("OPENENV_AWM_READY_TIMEOUT", "12.5", "ready_timeout_s", 12.5),
        ("OPENENV_AWM_MAX_PORT_RETRIES", "9", "max_port_retries", 9),
        ("OPENENV_AWM_RETRY_READY_TIMEOUT", "3", "retry_ready_timeout_s", 3.0),
        ("READY_POLL_INTERVAL", "0.1", "ready_poll_interval_s", 0.1),
        ("OPENENV_AWM_READY_POLL_INTERVAL", "0.2", "ready_poll_interval_s", 0.2),
        ("OPENENV_AWM_MAX_IDLE_TIME", "60", "max_idle_time_s", 60.0),
        ("OPENENV_AWM_ALLOWED_IDLE_SESSIONS", "0", "allowed_idle_sessions", 0),
        ("OPENENV_AWM_CLEANUP_INTERVAL", "1", "cleanup_interval_s", 1.0),
        ("OPENENV_AWM_LLM_MODEL", "judge", "llm_model", "judge"),
        ("QUINTAIN_PORT", "0", "port", 0),
    ],
)
def test_every_variable_sets_its_field(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: Any
) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(load_settings(), name) == value
    monkeypatch.setenv(variable, "")
    assert getattr(load_settings(), name) == Settings.model_fields[name].default


@pytest.mark.parametrize(
    ("variable", "text"),
    [("MAX_CONCURRENT_ENVS", "0"), ("OPENENV_AWM_MAX_IDLE_TIME", "soon"), ("QUINTAIN_PORT", "70000")],
)
def test_a_value_out_of_range_names_the_variable(monkeypatch: pytest.MonkeyPatch, variable: str, text: str) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(SettingsError, match=f"{variable}: .*{text}"):
        load_settings()


def test_an_override_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUINTAIN_PORT", "1234")
    assert load_settings(port=0).port == 0
    with pytest.raises(SettingsError, match="QUINTAIN_PORT"):
        load_settings(port=-1)


def test_keys_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_AWM_LLM_API_KEY", "sk-secret")
    monkeypatch.setenv("QUINTAIN_TOKEN", "t-secret")
    assert "secret" not in repr(load_settings())


def test_the_table_has_a_row_for_every_setting() -> None:
    rows = settings_table().splitlines()
    assert len(rows) == len(Settings.model_fields) + 2
    for name, field in Settings.model_fields.items():
        [row] = [row for row in rows if f"`{variables(field)[0]}`" in row.split("|")[1]]
        assert field.description
        assert field.description in row
        assert name not in row or name in field.description
