"""Workspaces: a directory tree with commands, files and background jobs, in a sandbox that may start processes."""

from quintain.environments.workspace.kind import KIND, WorkspaceKind
from quintain.environments.workspace.sandbox import workspace_class

__all__ = ["KIND", "WorkspaceKind", "workspace_class"]
