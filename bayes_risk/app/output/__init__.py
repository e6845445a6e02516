"""Results on disk: the folder, its tables, numbers and arrays, and how to do a run again."""

from .folder import check_target, output_folder
from .manifest import MANIFEST, manifest, settings, versions
from .numbers import plain, write_csv, write_json
from .provenance import DataFile, Provenance, data_hash
from .records import records_table
from .study import identification_summary, write_study
from .workplace import workplace

__all__ = [
    "MANIFEST",
    "DataFile",
    "Provenance",
    "check_target",
    "data_hash",
    "identification_summary",
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
