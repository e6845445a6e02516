"""What all fits do alike to synthesise: read the request, and make the release of the tables.

A fit adds how one table is drawn. Each table is drawn by its own child generator, so that the first
data sets are the same however many follow.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, known_columns
from bayes_risk.microdata import Codes, Microdata
from bayes_risk.release import Release

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """What `synthesize` was asked for.

    ``columns`` in the order of the model, ``mask`` (n,) the records to replace; a generator, and a
    draw of Theta where there are any, for each of the m tables.
    """

    microdata: Microdata
    columns: tuple[str, ...]
    mask: Mask
    rngs: Sequence[np.random.Generator]
    draw_index: tuple[int, ...] | None
    seed_entropy: str

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        modelled: Sequence[str],
        m: int,
        columns: Sequence[str] | None,
        records: Any = None,
        *,
        n_draws: int | None = None,
        random_seed: int | np.random.Generator | None,
    ) -> "Request":
        """Check all that was asked; take a draw of Theta for each table, no draw twice."""
        m = at_least("m", m, 1)
        names = known_columns("columns", modelled if columns is None else columns, modelled)
        if not names:
            raise InputError("columns names no column; name those to synthesise, or leave it out")
        if n_draws is not None and m > n_draws:
            raise InputError(f"m={m} exceeds the {n_draws} draws; fit with more draws")
        mask = microdata.mask(records)
        rng = np.random.default_rng(random_seed)
        chosen = None if n_draws is None else rng.choice(n_draws, size=m, replace=False)
        return cls(
            microdata=microdata,
            columns=tuple(c for c in modelled if c in names),
            mask=mask,
            rngs=rng.spawn(m),
            draw_index=None if chosen is None else tuple(int(h) for h in chosen),
            seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        )

    def draws(self) -> Iterable[tuple[int, np.random.Generator]]:
        """Draw of Theta and generator of each table."""
        return zip(self.draw_index or (), self.rngs, strict=True)

    def release(self, tables: Iterable[Codes], *, classes: str = "new") -> Release:
        """The release of the coded tables."""
        return Release(
            datasets=[self.microdata.decode(codes) for codes in tables],
            synthesized=self.columns,
            records=None if self.mask.all() else self.mask,
            classes=classes,
            draw_index=self.draw_index,
            seed_entropy=self.seed_entropy,
        )


def made_columns(
    release: Release, microdata: Microdata, modelled: Sequence[str], lacking: str
) -> list[str]:
    """Columns of a release in the order of the model; ``lacking`` says what another one lacks."""
    names = known_columns("synthesized", release.synthesized, microdata.columns)
    without = [c for c in names if c not in modelled]
    if without:
        raise InputError(f"the release has column {without[0]!r} synthesised, for which {lacking}")
    return [c for c in modelled if c in names]
