"""Task suites that others wrote, made into packs: data and code are read from where they are installed."""

from quintain.tasks.importers.bfcl import BfclPackage, Category, Entry, read_entries
from quintain.tasks.importers.bfcl_pack import BfclPack

__all__ = ["BfclPack", "BfclPackage", "Category", "Entry", "read_entries"]
