"""The environment class of Agent World Model scenarios: FastAPI and SQLAlchemy applications over SQLite.

One class serves every scenario of the dataset; a scenario is payload.
"""

from pathlib import Path

from quintain.sandboxes.base import SandboxClass, SandboxLimits

CLASS_NAME = "awm-sqlite-v1"
_PRELOAD = (
    "email_validator",
    "encodings.idna",
    "fastapi",
    "fastapi.openapi.utils",
    "fastapi.responses",
    "fastapi.security",
    "fastapi.staticfiles",
    "multipart",
    "pydantic",
    "sqlalchemy",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "sqlalchemy.exc",
    "sqlalchemy.orm",
    "sqlalchemy.pool",
    "time_machine",
    "uvicorn",
)
"""What scenario code imports: once, in the zygote."""


def awm_class(limits: SandboxLimits | None = None) -> SandboxClass:
    """The sandbox class that runs AWM scenarios."""
    here = Path(__file__).parent
    return SandboxClass("awm", here / "awm.lock.txt", here / "awm_kind", _PRELOAD, limits=limits or SandboxLimits())
