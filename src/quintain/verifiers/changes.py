"""What an episode changed in its database, as the verifier's sandbox tells it (`verifier_kind/changes.py`), checked."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.errors import VerifierError

Count = Annotated[int, Field(ge=0, le=10**9)]


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TableChange(_Contract):
    """One table that differs, or could not be compared. Numbers are of rows, and have an upper bound.

    `reshaped` says that the schema of the table, of an index or a trigger of it changed; `counter` that rows were
    inserted into it with AUTOINCREMENT, though they may be gone again.
    """

    table: str = Field(max_length=300)
    kind: Literal["changed", "added", "dropped", "unreadable", "uncompared"]
    inserted: Count = 0
    deleted: Count = 0
    changed: Count = 0
    reshaped: bool = False
    counter: bool = False
    reason: str | None = Field(default=None, max_length=300)

    @property
    def written(self) -> bool:
        """Whether it is known to have been written to; a table that cannot be read any more was."""
        return self.kind != "uncompared" or self.reshaped or self.counter


class StateChanges(_Contract):
    """Every table that differs between two databases; `omitted` is how many more there are than are told."""

    tables: list[TableChange] = Field(default_factory=list, max_length=1000)
    omitted: Count = 0

    @classmethod
    def read(cls, answer: dict[str, Any]) -> "StateChanges":
        """The changes in an answer to the operation `changes`.

        Raises:
            VerifierError: the initial database cannot be read, or it is no such answer.
        """
        if answer.get("status") == "error":
            raise VerifierError(f"the changes cannot be told: {str(answer.get('error'))[:500]}")
        try:
            return cls.model_validate(answer.get("value"))
        except ValidationError as error:
            raise VerifierError(f"the changes are not told as such: {error.error_count()} errors") from error
