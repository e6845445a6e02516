"""Every table that comes from a file: one door for all kinds, and what synthpop leaves behind."""

from bayes_risk.tables.alike import aligned, read_like
from bayes_risk.tables.kinds import SUFFIXES
from bayes_risk.tables.levels import declare_levels, holds_text
from bayes_risk.tables.releases import files_of_releases, read_releases
from bayes_risk.tables.table import read_table

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
