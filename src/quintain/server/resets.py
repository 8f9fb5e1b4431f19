"""What a reset may say."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from quintain.contracts.descriptor import WholeSeed
from quintain.contracts.untrusted import json_problem
from quintain.contracts.verification import VerifyPolicy
from quintain.errors import UsageError
from quintain.records import MAX_ATTEMPT, ModelDigest

JsonObject = dict[str, Any]


def _whole(value: Any) -> Any:
    """3.0 is the number 3 to every JSON writer that has only one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, Field(strict=True), BeforeValidator(_whole)]
Text = Annotated[str, Field(strict=True)]


class ResetParameters(BaseModel):
    """The parameters of one reset. Those it does not know are ignored, and `warnings` names them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scenario: Annotated[str, Field(strict=True, min_length=1, max_length=512)]
    task_idx: Whole | None = None
    task: Text | None = None
    seed: WholeSeed | None = None
    episode_id: Annotated[str, Field(strict=True, max_length=255)] | None = None
    model_digest: ModelDigest | None = None
    attempt: Annotated[Whole, Field(ge=0, le=MAX_ATTEMPT)] | None = None
    reward_config: JsonObject | None = None
    verify: VerifyPolicy | None = None
    llm_base_url: Text | None = None
    llm_api_key: Text | None = None
    llm_model: Text | None = None
    warnings: tuple[str, ...] = ()


_KNOWN = tuple(name for name in ResetParameters.model_fields if name != "warnings")


def read_reset(data: JsonObject) -> ResetParameters:
    """The parameters in a reset message.

    Raises:
        UsageError: one is missing or of the wrong type; the message names it.
    """
    if data.get("scenario") in (None, ""):
        raise UsageError("a reset needs the parameter scenario; call __list_scenarios__ to see which there are")
    if problem := json_problem({name: data[name] for name in _KNOWN if name in data}):
        raise UsageError(f"the reset was refused: {problem}")
    try:
        parameters = ResetParameters.model_validate({name: data[name] for name in _KNOWN if name in data})
    except ValidationError as error:
        raise UsageError("; ".join(_explain(item) for item in error.errors(include_url=False)[:5])) from None
    warnings = []
    if unknown := sorted(set(data) - set(_KNOWN)):
        named = ", ".join(repr(name[:40]) for name in unknown[:10])
        warnings.append(f"unknown reset parameters were ignored: {named}")
    if parameters.task is not None and parameters.task_idx is not None:
        warnings.append("task replaces the text of the task at task_idx, and a custom task has no verifier")
    return parameters.model_copy(update={"warnings": tuple(warnings)})


def _explain(item: Any) -> str:
    name = str(item["loc"][0]) if item["loc"] else "reset"
    # a key must not come back in an error that someone may log
    shown = "a value" if name == "llm_api_key" else repr(item["input"])[:80]
    message = str(item["msg"])
    return f"reset parameter {name} is {shown}: {message[:1].lower()}{message[1:]}"
