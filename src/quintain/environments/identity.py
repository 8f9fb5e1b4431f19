"""The identity of episodes in sandboxes: what their class, their isolation and their programs are called."""

from quintain import __version__
from quintain.artifacts import ArtifactStore
from quintain.contracts.descriptor import Limits, ToolContract
from quintain.contracts.identity import cas_uri
from quintain.environments.base import EpisodeClass
from quintain.sandboxes.base import SandboxClass, SandboxProvider
from quintain.sandboxes.runtime import Interpreter


def sandboxed_class(
    name: str,
    provider: SandboxProvider,
    sandbox_class: SandboxClass,
    interpreter: Interpreter,
    store: ArtifactStore,
    **versions: str,
) -> EpisodeClass:
    """The identity of a class's episodes; its lock and policy are stored, so that their references resolve.

    Args:
        versions: what else of the host such episodes run with, by name; a part of the identity.
    """
    limits = sandbox_class.limits
    more = "".join(f" {what}-{version}" for what, version in versions.items())
    return EpisodeClass(
        environment_class=name,
        dependency_lock=cas_uri(store.put(sandbox_class.lock.read_bytes())),
        runtime=f"{provider.name}/1 {provider.level} cpython-{interpreter}{more}",
        policy=cas_uri(store.put(sandbox_class.policy.document)),
        tool_contract=ToolContract(protocol="mcp-tools/1"),
        limits=Limits(
            cpu="1",
            memory=str(limits.memory_bytes),
            pids=limits.pids,
            disk=str(limits.disk_bytes),
            timeout_seconds=limits.cpu_seconds,
        ),
        versions={"quintain": __version__, "python": str(interpreter), **versions},
    )
