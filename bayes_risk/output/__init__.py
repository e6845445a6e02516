"""Results on disk: the folder, its tables, numbers and arrays, and how to do a run again."""

from bayes_risk.output.folder import check_target, output_folder
from bayes_risk.output.manifest import MANIFEST, manifest, settings, versions
from bayes_risk.output.numbers import plain, write_csv, write_json
from bayes_risk.output.provenance import DataFile, Provenance, data_hash
from bayes_risk.output.records import records_table
from bayes_risk.output.study import identification_summary, write_study
from bayes_risk.output.workplace import workplace

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
