"""OpenEnv's own validator finds nothing to complain about."""

import json
import subprocess

import pytest

from e2e.peer import environment, program
from e2e.serving import Server

pytestmark = pytest.mark.xdist_group("e2e-pack")


def test_all_six_criteria_pass(server: Server) -> None:
    done = subprocess.run(
        [program("openenv", "openenv"), "validate", "--url", server.url, "--json"],
        capture_output=True, text=True, timeout=60, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"] is True
    assert {criterion["id"]: criterion["passed"] for criterion in report["criteria"]} == {
        "openapi_version_available": True,
        "health_endpoint": True,
        "metadata_endpoint": True,
        "schema_endpoint": True,
        "mcp_endpoint": True,
        "mode_endpoint_consistency": True,
    }
