"""Finished steps of a long run, kept on disk: a stopped run goes on where it was."""

from bayes_risk.steps.keep import (
    Later,
    Packing,
    keeping,
    kept,
    kept_blocks,
    list_of,
    packing_of,
    within,
)
from bayes_risk.steps.private import opened, private_folder
from bayes_risk.steps.store import Arrays, Store

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
