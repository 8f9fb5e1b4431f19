"""The security policy of a sandbox class: what its code may ask the kernel for. It is part of the class's identity."""

from pydantic import BaseModel, ConfigDict

from quintain.contracts.identity import canonical_json


class SecurityPolicy(BaseModel):
    """What code inside a sandbox may do beyond computing on its own memory and state directory.

    Network, host files, other processes, namespaces, mounts, tracing and kernel interfaces are never allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    processes: bool = False
    """May start processes (threads are always allowed); their number is bounded by the class's limits."""
    programs: bool = False
    """May execute a program (`execve`)."""

    @property
    def document(self) -> bytes:
        """The policy as stored; its digest is part of the class's identity."""
        return canonical_json({"schema": "quintain.dev/security-policy/v1", **self.model_dump()})
