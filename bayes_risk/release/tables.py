"""Every table that comes from a file: one door for all kinds, and what synthpop leaves behind."""

from bayes_risk.data.kinds import SUFFIXES
from bayes_risk.data.levels import declare_levels, holds_text
from bayes_risk.data.table import read_table

from .alike import aligned, read_like
from .releases import files_of_releases, read_releases

__all__ = [
    "SUFFIXES",
    "aligned",
    "declare_levels",
    "files_of_releases",
    "holds_text",
    "read_like",
    "read_releases",
    "read_table",
]
