"""Results on disk: the folder, its tables, numbers and arrays, and how to do a run again."""

from bayes_risk.reporting.provenance import versions

from .folder import check_target, output_folder
from .manifest import MANIFEST, manifest, settings
from .numbers import plain, write_csv, write_json
from .records import records_table
from .study import write_study
from .workplace import workplace

__all__ = [
    "MANIFEST",
    "check_target",
    "manifest",
    "output_folder",
    "plain",
    "records_table",
    "settings",
    "versions",
    "workplace",
    "write_csv",
    "write_json",
    "write_study",
]
