"""The sandbox class of MCP servers: it may start processes, and its interpreter has the official SDK."""

from pathlib import Path
from typing import Final

from quintain.sandboxes.base import SandboxClass, SandboxLimits
from quintain.sandboxes.policy import SecurityPolicy

CLASS_NAME: Final = "mcp-v1"

PROGRAMS: Final = ("bash", "cat", "env", "sh")
"""The host's programs that a server's command may use, beside the class's own `python`."""

LIMITS: Final = SandboxLimits(
    memory_bytes=512 * 2**20,
    disk_bytes=64 * 2**20,
    pids=64,
    cpu_seconds=900,
    open_files=256,
)


def mcp_class(limits: SandboxLimits | None = None) -> SandboxClass:
    """The sandbox class that runs MCP servers."""
    here = Path(__file__).parents[1]
    return SandboxClass(
        "mcp",
        here / "mcp.lock.txt",
        here / "mcp_kind",
        ("base64", "ctypes", "glob", "json", "selectors", "shutil", "subprocess"),
        SecurityPolicy(processes=True, programs=True),
        limits or LIMITS,
        PROGRAMS,
    )
