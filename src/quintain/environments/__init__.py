"""The kinds of environment an episode may take place in."""

from quintain.environments.base import (
    MAX_RESULT_BYTES,
    Environment,
    EnvironmentKind,
    EpisodeClass,
    Prepared,
    ToolOutcome,
    ToolStatus,
)
from quintain.environments.database import DatabaseEnvironment, DatabaseKind
from quintain.environments.templates import DatabaseTemplates, PreparedDatabase

__all__ = [
    "MAX_RESULT_BYTES",
    "DatabaseEnvironment",
    "DatabaseKind",
    "DatabaseTemplates",
    "Environment",
    "EnvironmentKind",
    "EpisodeClass",
    "Prepared",
    "PreparedDatabase",
    "ToolOutcome",
    "ToolStatus",
]
