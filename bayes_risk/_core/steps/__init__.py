"""Finished steps of a long run, kept on disk: a stopped run goes on where it was."""

from .keep import Later, Packing, keeping, kept, kept_blocks, list_of, packing_of, within
from .private import opened, private_folder
from .store import Arrays, Store

__all__ = [
    "Arrays",
    "Later",
    "Packing",
    "Store",
    "keeping",
    "kept",
    "kept_blocks",
    "list_of",
    "opened",
    "packing_of",
    "private_folder",
    "within",
]
