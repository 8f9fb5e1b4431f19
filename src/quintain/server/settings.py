"""Every setting of the server, read from the environment; `settings_table` prints them for the docs."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from quintain.contracts.verification import VerifyPolicy
from quintain.errors import SettingsError
from quintain.sandboxes.base import IsolationLevel
from quintain.tasks.pools import Pool


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class Settings(BaseSettings):
    """The server's settings. Names of environment variables are the aliases, exactly as written."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        case_sensitive=True,
        populate_by_name=True,
        env_ignore_empty=True,
        allow_inf_nan=False,
    )

    host: str = Field(
        default="127.0.0.1",
        validation_alias="QUINTAIN_HOST",
        description="Address to listen on. Other than loopback needs QUINTAIN_TOKEN.",
    )
    port: int = Field(
        default=8899, ge=0, le=65535, validation_alias="QUINTAIN_PORT", description="Port; 0 takes a free one."
    )
    token: SecretStr | None = Field(
        default=None,
        validation_alias="QUINTAIN_TOKEN",
        description="Bearer token that every request but `/health` must carry. Optional on loopback.",
    )
    tokens: Path | None = Field(
        default=None,
        validation_alias="QUINTAIN_TOKENS",
        description="JSON file with more control tokens, each with a name and the pools it may list and reset.",
    )
    token_pools: Annotated[tuple[Pool, ...], NoDecode, BeforeValidator(_listed)] = Field(
        default=(Pool.TRAIN,),
        min_length=1,
        validation_alias="QUINTAIN_TOKEN_POOLS",
        description="Pools that QUINTAIN_TOKEN may list and reset, or without any token every client, where there is a "
        "task registry: names with commas between them. Blind tasks need a token of the file, with a milestone.",
    )
    registry_dir: Path = Field(
        default_factory=lambda: data_home() / "registry",
        validation_alias="QUINTAIN_REGISTRY",
        description="The task registry's folder. Where there is none, every task is served to everyone. It is no "
        "cache: it alone knows which tasks were trained on.",
    )
    isolation: IsolationLevel | None = Field(
        default=None,
        validation_alias="QUINTAIN_ISOLATION",
        description="Lowest isolation level the server runs at. Default: full, and reduced inside a container.",
    )
    data_dir: Path | None = Field(
        default=None,
        validation_alias="AWM_DATA_DIR",
        description="Folder with the Agent World Model dataset, served beside the packs that are named.",
    )
    packs: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = Field(
        default=(),
        validation_alias="QUINTAIN_PACKS",
        description="Packs to serve: names of shipped ones (`awm` is a small sample of Agent World Model) or folders, "
        "with commas between them. Default: all shipped packs, unless AWM_DATA_DIR names a dataset.",
    )
    quarantine: Path | None = Field(
        default=None,
        validation_alias="QUINTAIN_QUARANTINE",
        description="File with the tasks that are not served, as `quintain validate --quarantine` writes it.",
    )
    data_revision: str | None = Field(
        default=None,
        validation_alias="QUINTAIN_AWM_REVISION",
        description="Revision to download where the dataset is downloaded.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: Path.home() / ".cache" / "quintain",
        validation_alias="QUINTAIN_CACHE_DIR",
        description="Where indexes, artifacts and class runtimes are kept.",
    )
    ledger: str = Field(
        default_factory=lambda: str(data_home() / "ledger.db"),
        validation_alias="QUINTAIN_LEDGER",
        description="The ledger of scores and attempts, which several servers may share: a SQLite file or an "
        "SQLAlchemy URL. It is no cache: without it scores are forgotten.",
    )
    spool_dir: Path = Field(
        default_factory=lambda: data_home() / "spool",
        validation_alias="QUINTAIN_SPOOL",
        description="Directory in which the records of episodes wait for `quintain store ingest`; several servers may "
        "share it.",
    )
    spool_size_mib: int = Field(
        default=4096,
        ge=0,
        validation_alias="QUINTAIN_SPOOL_SIZE",
        description="MiB of records not yet ingested from which no episode is begun (CAPACITY_REACHED). 0 keeps no "
        "records.",
    )
    keep_states: bool = Field(
        default=False,
        validation_alias="QUINTAIN_KEEP_STATES",
        description="Keep beside the records what each episode's database was at its beginning and end, for "
        "`quintain replay` and `reverify`. Databases are kept as they are: nothing in them is redacted.",
    )
    verify: VerifyPolicy = Field(
        default=VerifyPolicy.CONTROL_ONLY,
        validation_alias="QUINTAIN_VERIFY",
        description="What verifying does where a reset does not say: `control_only`, `final_only` or `open`.",
    )
    runtime_python: str | None = Field(
        default=None,
        validation_alias="QUINTAIN_RUNTIME_PYTHON",
        description="Interpreter for class runtimes. Default: the newest suitable one on the host.",
    )
    immortal_heap: bool = Field(
        default=True,
        validation_alias="QUINTAIN_IMMORTAL_HEAP",
        description="Share more memory between episodes, on interpreters where a self-test passes (Python 3.12, 3.13).",
    )
    max_concurrent_envs: int = Field(
        default=10000,
        ge=1,
        validation_alias="MAX_CONCURRENT_ENVS",
        description="Most sessions at a time; one more is refused with CAPACITY_REACHED.",
    )
    ready_timeout_s: float = Field(
        default=180.0,
        gt=0,
        validation_alias="OPENENV_AWM_READY_TIMEOUT",
        description="Seconds that a reset may take, the building of a cold scenario included.",
    )
    retry_ready_timeout_s: float = Field(
        default=30.0,
        gt=0,
        validation_alias="OPENENV_AWM_RETRY_READY_TIMEOUT",
        description="Seconds that a new process may take after one has died within an episode.",
    )
    max_port_retries: int = Field(
        default=5,
        ge=0,
        validation_alias="OPENENV_AWM_MAX_PORT_RETRIES",
        description="Accepted and without effect: episodes use no ports.",
    )
    ready_poll_interval_s: float = Field(
        default=0.5,
        gt=0,
        validation_alias=AliasChoices("OPENENV_AWM_READY_POLL_INTERVAL", "READY_POLL_INTERVAL"),
        description="Accepted and without effect: nothing is polled.",
    )
    max_idle_time_s: float = Field(
        default=600.0,
        gt=0,
        validation_alias="OPENENV_AWM_MAX_IDLE_TIME",
        description="Seconds without a step after which an episode may be ended, when there are many.",
    )
    allowed_idle_sessions: int = Field(
        default=3000,
        ge=0,
        validation_alias="OPENENV_AWM_ALLOWED_IDLE_SESSIONS",
        description="Idle episodes are ended only while there are more episodes than this.",
    )
    cleanup_interval_s: float = Field(
        default=5.0,
        gt=0,
        validation_alias="OPENENV_AWM_CLEANUP_INTERVAL",
        description="Seconds between two looks for idle episodes.",
    )
    llm_base_url: str | None = Field(
        default=None,
        validation_alias="OPENENV_AWM_LLM_BASE_URL",
        description="Judge endpoint for sql and hybrid verification where a reset names none; any that speaks OpenAI's "
        "chat completions.",
    )
    llm_api_key: SecretStr | None = Field(
        default=None, validation_alias="OPENENV_AWM_LLM_API_KEY", description="Key for the judge endpoint."
    )
    llm_model: str | None = Field(
        default=None, validation_alias="OPENENV_AWM_LLM_MODEL", description="Model for the judge."
    )
    call_timeout_s: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        validation_alias="QUINTAIN_CALL_TIMEOUT",
        description="Seconds a tool may take, unless the action's metadata says `timeout_s`.",
    )
    max_call_timeout_s: float = Field(
        default=600.0,
        gt=0,
        le=3600,
        validation_alias="QUINTAIN_MAX_CALL_TIMEOUT",
        description="Most seconds that an action's `timeout_s` may give its call; more is cut, with a warning.",
    )
    verify_timeout_s: float = Field(
        default=20.0, gt=0, validation_alias="QUINTAIN_VERIFY_TIMEOUT", description="Seconds a verifier may take."
    )
    max_starting: int = Field(
        default=16,
        ge=1,
        validation_alias="QUINTAIN_MAX_STARTING",
        description="Most episodes that are started at a time; others wait their turn.",
    )
    max_queued: int = Field(
        default=10000,
        ge=1,
        validation_alias="QUINTAIN_MAX_QUEUED",
        description="Most resets that wait for their turn or for memory; one more is refused with CAPACITY_REACHED.",
    )
    queue_timeout_s: float = Field(
        default=120.0,
        gt=0,
        validation_alias="QUINTAIN_QUEUE_TIMEOUT",
        description="Seconds that a reset may wait so before it is refused with CAPACITY_REACHED.",
    )
    min_free_memory_bytes: int = Field(
        default=256 * 2**20,
        ge=0,
        validation_alias="QUINTAIN_MIN_FREE_MEMORY",
        description="While fewer bytes of memory are available (to the host, or within the server's control group), "
        "resets wait and idle sessions hibernate early. 0 never looks.",
    )
    hibernate_after_s: float = Field(
        default=10.0,
        ge=0,
        validation_alias="QUINTAIN_HIBERNATE_AFTER",
        description="Seconds between two calls after which an episode gives its process back until the next, where its "
        "database is all there is of it. 0 turns it off.",
    )
    warm_after: int = Field(
        default=8,
        ge=0,
        validation_alias="QUINTAIN_WARM_AFTER",
        description="Episodes of a scenario after which it is warmed, behind the others; 0 warms it before the first.",
    )
    max_templates: int = Field(
        default=64, ge=1, validation_alias="QUINTAIN_MAX_TEMPLATES", description="Most scenarios kept ready."
    )
    detached_timeout_s: float = Field(
        default=600.0,
        gt=0,
        validation_alias="QUINTAIN_DETACHED_TIMEOUT",
        description="Seconds without a request after which a session made over `/mcp` without a WebSocket is closed.",
    )
    keep_dir: Path = Field(
        default_factory=lambda: Path(tempfile.gettempdir()),
        validation_alias="QUINTAIN_KEEP_DIR",
        description="Where `done` with keep_session keeps its directories (mode 0700). Default: the system's.",
    )
    scratch_dir: Path | None = Field(
        default=None,
        validation_alias="QUINTAIN_SCRATCH_DIR",
        description="Where a run makes the directory for everything temporary, and sweeps those of killed runs. "
        "Default: the system's temporary directory.",
    )
    max_message_bytes: int = Field(
        default=100 * 2**20,
        ge=1024,
        validation_alias="QUINTAIN_MAX_MESSAGE_BYTES",
        description="Largest message or request body.",
    )
    max_agent_message_bytes: int = Field(
        default=4 * 2**20,
        ge=1024,
        validation_alias="QUINTAIN_MAX_AGENT_MESSAGE_BYTES",
        description="Most bytes that the requests of one episode's agent may hold at a time, and so the largest of "
        "them. No more than QUINTAIN_MAX_MESSAGE_BYTES.",
    )
    ping_interval_s: float = Field(
        default=20.0, gt=0, validation_alias="QUINTAIN_PING_INTERVAL", description="Seconds between keepalive pings."
    )
    ping_timeout_s: float = Field(
        default=300.0,
        gt=0,
        validation_alias="QUINTAIN_PING_TIMEOUT",
        description="Seconds that a client may neither answer a ping nor read what it was sent before its connection "
        "is dropped. A trainer within its backward pass looks the same as one that has gone.",
    )
    shutdown_grace_s: float = Field(
        default=10.0,
        gt=0,
        validation_alias="QUINTAIN_SHUTDOWN_GRACE",
        description="Seconds that open connections have to end after SIGTERM.",
    )

    @field_validator("token_pools")
    @classmethod
    def _not_blind(cls, pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
        if Pool.BLIND in pools:
            raise ValueError("blind tasks need a token of QUINTAIN_TOKENS, with the milestone they are opened for")
        return pools


def data_home() -> Path:
    """Where this user's programs keep what is no cache (XDG Base Directory Specification)."""
    named = os.environ.get("XDG_DATA_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".local" / "share") / "quintain"


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment, some replaced by name (as command-line options do).

    Raises:
        SettingsError: a value out of range; names the variable.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = {item["loc"][:1]: item for item in reversed(found)}  # what else is wrong with a value follows from it
        told = [item for item in found if item is first[item["loc"][:1]]]
        raise SettingsError("; ".join(map(_explain, told))) from error


def _explain(item: Mapping[str, Any]) -> str:
    name = str(item["loc"][0]) if item["loc"] else "settings"
    fields = Settings.model_fields
    variable = variables(fields[name])[0] if name in fields else name
    message = str(item["msg"]).removeprefix("Value error, ")
    return f"{variable}: {message[:1].lower()}{message[1:]}, got {str(item['input'])[:80]!r}"


def variables(field: FieldInfo) -> list[str]:
    """The environment variables that set a field, the documented one first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias)]


def settings_table() -> str:
    """All settings as a Markdown table."""
    rows = ["| Variable | Default | Meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        names = " or ".join(f"`{variable}`" for variable in variables(field))
        rows.append(f"| {names} | {_default(name, field)} | {field.description} |")
    return os.linesep.join(rows)


def _default(name: str, field: FieldInfo) -> str:
    if name == "keep_dir":
        return "the system's temporary directory"
    if name == "ledger":
        return "`~/.local/share/quintain/ledger.db`"
    if name == "spool_dir":
        return "`~/.local/share/quintain/spool`"
    if name == "registry_dir":
        return "`~/.local/share/quintain/registry`"
    if name == "token_pools":
        return "`train`"
    if name == "cache_dir":
        return "`~/.cache/quintain`"
    return "" if field.default is None else f"`{field.default}`"
