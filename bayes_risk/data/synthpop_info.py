"""What synthpop writes beside its files: ``synthesis_info_<name>.txt``, as far as it is known."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PREFIX, SUFFIX = "synthesis_info_", ".txt"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SynthesisInfo:
    """What the text file of ``write.syn`` states; what it does not state is None."""

    name: str  # the name that the files were given
    saved: str | None = None  # date and time, as R wrote them
    original: str | None = None  # how the call to ``syn`` named the confidential data
    m: int | None = None  # number of synthetic data sets
    # ``csv``, ``tab``, ``txt``, ``Stata``, ``SPSS``, ``SAS``, ``rda`` or ``RData``
    filetype: str | None = None
    # the method of each column, ``""`` for columns that were not synthesised; empty if it is not
    # stated, or not as one method a column
    methods: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None

    @property
    def synthesized(self) -> list[str]:
        """Columns with a method, in the order stated; empty if no methods are."""
        return [column for column, method in self.methods.items() if method]


def read_info(file: Path) -> SynthesisInfo:
    """Read a ``synthesis_info_<name>.txt``; lines that are not known are passed over."""
    text = file.read_text(encoding="utf-8-sig", errors="replace")  # what counts is ASCII
    m, seed = _stated(text, "Number of synthetic data sets"), _stated(text, "Seed used")
    written = re.search(r"^Output file\(s\): *\((\w+)\)", text, re.M)
    return SynthesisInfo(
        name=file.name.removeprefix(PREFIX).removesuffix(SUFFIX),
        saved=_stated(text, "Date saved"),
        original=_stated(text, "Data frame with original data"),
        m=int(m) if m and m.isdigit() else None,
        filetype=written[1] if written else None,
        methods=_methods(text),
        seed=int(seed) if seed and re.fullmatch(r"-?\d+", seed) else None,
    )


def _stated(text: str, what: str) -> str | None:
    found = re.search(rf"^{re.escape(what)}: *(.*?) *$", text, re.M)
    return found[1] if found and found[1] else None


def _methods(text: str) -> dict[str, str]:
    """Read R's print of a named vector: a line of names, and one of quoted values under them."""
    block = re.search(r"^Methods used:[^\n]*\n(.*?)(?=^Seed used|\Z)", text, re.M | re.S)
    lines = [line for line in block[1].splitlines() if line.strip()] if block else []
    methods: dict[str, str] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found = list(re.finditer(r'"((?:[^"\\]|\\.)*)"', values))
        ends = [0, *(value.end() for value in found)]
        columns = [names[a:b].strip() for a, b in zip(ends, ends[1:], strict=False)]
        if not found or not all(columns):
            return {}
        methods |= {column: value[1] for column, value in zip(columns, found, strict=True)}
    return methods if len(lines) % 2 == 0 else {}
