"""What travels between rooms: identity, the episode descriptor, tools and actions."""

from quintain.contracts.descriptor import (
    EnvironmentEpisode,
    EpisodeSpec,
    Limits,
    ToolContract,
)
from quintain.contracts.identity import (
    MAX_SEED,
    Digest,
    Seed,
    canonical_json,
    cas_uri,
    digest_of,
    sha256,
)
from quintain.contracts.tools import CallToolAction, ListToolsAction, Tool

__all__ = [
    "MAX_SEED",
    "CallToolAction",
    "Digest",
    "EnvironmentEpisode",
    "EpisodeSpec",
    "Limits",
    "ListToolsAction",
    "Seed",
    "Tool",
    "ToolContract",
    "canonical_json",
    "cas_uri",
    "digest_of",
    "sha256",
]
