"""Two files of an audit that may leave: ``public.html`` and ``public.json``."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_risk._core import __version__
from bayes_risk.reporting.redaction.redact import Redacted, redact

from .numbers import write_json

if TYPE_CHECKING:
    from bayes_risk.app.run import StudyResult

PARTS = (
    *("attribute", "identification", "membership", "utility", "context", "bounds"),
    *("privacy_loss", "full_table", "reweighting"),
)
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "td,th{text-align:left;padding:.3em 1em .3em 0;border-bottom:1px solid #ccc}"
    "table{border-collapse:collapse}"
)
HEADS = {
    "result": "Result",
    "measure": "Measure",
    "records": "Records",
    "found": "With the release",
    "without": "Without it",
}


def write_public(folder: Path, result: "StudyResult") -> None:
    """Write what `redact` leaves of an audit, without settings, seed, hash or labels.

    Parameters
    ----------
    folder : Path
    result : StudyResult
    """
    parts = [part for name in PARTS if (part := getattr(result, name)) is not None]
    found = redact(*parts, min_count=result.study.output.min_count)
    title = result.study.title
    write_json(folder / "public.json", _content(title, found))
    (folder / "public.html").write_text(_page(title, found), encoding="utf-8")


def _content(title: str, found: Redacted) -> dict[str, object]:
    return {
        "title": title,
        "rule": found.sentence(),
        "min_count": found.min_count,
        "numbers": found.table.to_dict("records"),
        "left_out": found.left_out,
        "bayes_risk": __version__,
    }


def _page(title: str, found: Redacted) -> str:
    heads = "".join(f"<th>{escape(HEADS[name])}</th>" for name in found.summary().columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>\n"
        for row in found.summary().itertuples(index=False)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(found.sentence())}</p>\n"
        f"<table>\n<tr>{heads}</tr>\n{rows}</table>\n<p>bayes_risk {__version__}</p>\n"
        "</body></html>\n"
    )
