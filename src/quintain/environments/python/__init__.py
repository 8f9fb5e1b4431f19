"""Environments that are Python classes or modules, each episode in a sandbox of its own.

The other half is what runs inside (`environments/python_kind`). What that half answers is untrusted.
"""

from quintain.environments.python.environment import PythonEnvironment
from quintain.environments.python.kind import KIND, PythonKind, python_class

__all__ = ["KIND", "PythonEnvironment", "PythonKind", "python_class"]
