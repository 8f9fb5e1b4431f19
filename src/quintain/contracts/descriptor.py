"""`EnvironmentEpisode`: the descriptor that rebuilds an episode, and the two ids made from it.

    environment_class_id = sha256(JCS{base_image, dependency_lock, runtime, policy, tool_contract})
    episode_id           = sha256(JCS{environment_class_id, task_payload, dataset, verifier, seed[, faults]})

On the wire keys are camelCase, in Python snake_case. `toolContract` enters the class id as the object it is on
the wire. Limits are not identity, and neither is the class's name.
"""

import math
import re
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from quintain.contracts.documents import UnreadableDocument, from_json, from_yaml
from quintain.contracts.identity import MAX_SEED, CasUri, Seed, digest_of
from quintain.contracts.quantities import Quantity, quantity
from quintain.errors import DescriptorError

API_VERSION: Final = "quintain.dev/v1alpha1"
KIND: Final = "EnvironmentEpisode"


def _whole(value: Any) -> Any:
    """2.0 and 2 are one number in canonical JSON, so both are accepted where a whole number is due."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _pinned(value: str) -> str:
    if not re.fullmatch(r"[^\s@]+@sha256:[0-9a-f]{64}", value):
        raise ValueError(f"expected an image pinned by digest (name@sha256:<64 hex digits>), got {value[:80]!r}")
    return value


def _base_image(value: str) -> str:
    return value if value == "host" else _pinned(value)


def _verifier_image(value: str) -> str:
    # A bundle in the artifact store is checked as a cas:// reference, everything else as an image.
    if value.startswith("cas://"):
        if not re.fullmatch(r"cas://sha256/[0-9a-f]{64}", value):
            raise ValueError(f"expected cas://sha256/<64 hex digits>, got {value[:80]!r}")
        return value
    return _pinned(value)


WholeSeed = Annotated[Seed, BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1, le=MAX_SEED, strict=True), BeforeValidator(_whole)]
Name = Annotated[str, Field(min_length=1, max_length=256)]


class _Contract(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class ToolContract(_Contract):
    """How tools are offered and how many steps an episode may take."""

    protocol: Name = "mcp-tools/1"
    max_steps: Positive = 30


class Limits(_Contract):
    """What one episode may use. None of it is identity."""

    cpu: Quantity = "2"
    memory: Quantity = "4Gi"
    pids: Positive = 64
    disk: Quantity = "256Mi"
    timeout_seconds: Positive = 900
    max_tokens: Positive = 32768

    @property
    def cpu_cores(self) -> float:
        """CPU cores; may be a fraction."""
        return float(quantity(self.cpu))

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes, a fraction rounded up."""
        return math.ceil(quantity(self.memory))

    @property
    def disk_bytes(self) -> int:
        """Disk in bytes, a fraction rounded up."""
        return math.ceil(quantity(self.disk))


class EpisodeSpec(_Contract):
    """What an episode is made of; every reference names its content by digest."""

    environment_class: Name
    base_image: Annotated[str, AfterValidator(_base_image)] = "host"
    dependency_lock: CasUri
    runtime: Name
    tool_contract: ToolContract = Field(default_factory=ToolContract)
    policy_digest: CasUri
    task_payload: CasUri
    dataset_manifest: CasUri
    verifier_image: Annotated[str, AfterValidator(_verifier_image)]
    seed: WholeSeed = 0
    fault_policy: CasUri | None = None
    limits: Limits = Field(default_factory=Limits)


class EnvironmentEpisode(_Contract):
    """One episode, by content. See the module's docstring for the ids."""

    api_version: Literal["quintain.dev/v1alpha1"] = API_VERSION
    kind: Literal["EnvironmentEpisode"] = KIND
    spec: EpisodeSpec

    @classmethod
    def from_yaml(cls, text: str | bytes, source: str = "descriptor") -> Self:
        """Read a YAML (or JSON) descriptor. `source` names it in error messages.

        Raises:
            DescriptorError: not YAML, a repeated key, or a field that does not follow the contract.
        """
        try:
            document = from_yaml(text)
        except UnreadableDocument as error:
            raise DescriptorError(f"{source}: not readable as YAML: {error}; correct it there") from error
        return cls.from_object(document, source)

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "descriptor") -> Self:
        """Read a JSON descriptor. `source` names it in error messages.

        Raises:
            DescriptorError: not JSON, a repeated key, or a field that does not follow the contract.
        """
        try:
            document = from_json(text)
        except UnreadableDocument as error:
            raise DescriptorError(f"{source}: not readable as JSON: {error}; correct it there") from error
        return cls.from_object(document, source)

    @classmethod
    def from_object(cls, document: Any, source: str = "descriptor") -> Self:
        """Validate a parsed descriptor.

        Raises:
            DescriptorError: names every field that does not follow the contract.
        """
        if not isinstance(document, dict):
            raise DescriptorError(
                f"{source}: expected a mapping with apiVersion, kind and spec, got {type(document).__name__}"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise DescriptorError(f"{source}: " + "; ".join(_explain(item) for item in error.errors())) from error

    def to_object(self) -> dict[str, Any]:
        """The descriptor as it travels: camelCase keys, absent options left out."""
        return self.model_dump(by_alias=True, exclude_none=True)

    def to_yaml(self) -> str:
        """The descriptor as YAML, in the order of the contract."""
        return yaml.safe_dump(self.to_object(), sort_keys=False, allow_unicode=True)

    @property
    def environment_class_id(self) -> str:
        """Id of the environment class: everything that a warm instance must already be."""
        spec = self.spec
        return _class_id(spec.base_image, spec.dependency_lock, spec.runtime, spec.policy_digest, spec.tool_contract)

    @property
    def episode_id(self) -> str:
        """Id of the episode: its class, task, dataset, verifier and seed, and its faults when it has any."""
        spec = self.spec
        parts: dict[str, Any] = {
            "environment_class_id": self.environment_class_id,
            "task_payload": spec.task_payload,
            "dataset": spec.dataset_manifest,
            "verifier": spec.verifier_image,
            "seed": spec.seed,
        }
        if spec.fault_policy is not None:
            parts["faults"] = spec.fault_policy
        return digest_of(parts)


@lru_cache(maxsize=1024)
def _class_id(base_image: str, dependency_lock: str, runtime: str, policy: str, tool_contract: ToolContract) -> str:
    return digest_of(
        {
            "base_image": base_image,
            "dependency_lock": dependency_lock,
            "runtime": runtime,
            "policy": policy,
            "tool_contract": tool_contract.model_dump(by_alias=True),
        }
    )


def _explain(item: Any) -> str:
    """One pydantic error as: field, what was wrong with which value, what to do."""
    where = ".".join(str(part) for part in item["loc"])
    shown = repr(item["input"])
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    if item["type"] == "extra_forbidden":
        near = get_close_matches(str(item["loc"][-1]), _known_fields(), n=1)
        hint = f"did you mean {near[0]}?" if near else "remove it"
        return f"{where}: unknown field; {hint}"
    if item["type"] == "missing":
        return f"{where}: missing; add it"
    if item["loc"][-1] == "seed":
        return f"{where}: {shown} is not a seed; give a whole number from 0 to {MAX_SEED} (2^53-1)"
    message = str(item["msg"]).removeprefix("Value error, ")
    if message.startswith("expected"):
        return f"{where}: {message}"
    return f"{where}: {message[:1].lower()}{message[1:]}, got {shown}"


def _known_fields() -> list[str]:
    return [
        to_camel(name)
        for model in (EnvironmentEpisode, EpisodeSpec, ToolContract, Limits)
        for name in model.model_fields
    ]
