"""How one data set of a release was drawn from a mixture, and what the sampler sees of it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from bayes_risk._core.arrays import Array, Flags
from bayes_risk.release.release import EncodedRelease

from .columns import Columns
from .state import Given, Prior, Rows, Units


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mechanism:
    """How one data set of a release was drawn."""

    y: Rows  # confidential rows
    z: Rows  # released rows
    synthesized: Flags  # (V,)
    replaced: Flags  # (n,): records
    rows: Flags  # (N,): released rows that hold synthetic values: theirs, or all
    own: bool  # whether classes were the records' own
    padding: int  # row of phi of a level that is not told
    exposure: Array  # (n, p): of all counts, missing or not
    others: tuple[Rows, ...] = ()  # released rows of further data sets from the same draw of Theta

    @classmethod
    def of_draw(
        cls, release: EncodedRelease, l: int, columns: Columns, prior: Prior
    ) -> "Mechanism":
        """Read all data sets of draw l of Theta."""
        first, *others = cls.of(release, columns, prior, release.by_draw[l])
        return replace(first, others=tuple(how.z for how in others))

    @classmethod
    def of(
        cls,
        release: EncodedRelease,
        columns: Columns,
        prior: Prior,
        which: Iterable[int] | None = None,
    ) -> "list[Mechanism]":
        """Read data sets of a release, by default all, against the confidential table."""
        codes = release.microdata.codes
        y, exposure = columns.rows(codes, prior), columns.exposures(codes)
        first = cls(
            y=y,
            z=y,
            synthesized=release.columns[columns.order],
            replaced=release.replaced,
            rows=release.rows,
            own=release.classes == "own",
            padding=prior.width - 1,
            exposure=exposure,
        )
        which = range(release.m) if which is None else which
        return [replace(first, z=columns.rows(release.codes[l], prior)) for l in which]

    @property
    def conditional(self) -> Flags:
        """Variables that the release was drawn given, shape (V,)."""
        return np.zeros(len(self.synthesized), dtype=bool) if self.own else ~self.synthesized

    @property
    def _shown(self) -> Flags:
        """Values that are synthetic and the records' own, shape (n, V)."""
        return self.replaced[:, None] & self.synthesized & self.own

    @property
    def linked(self) -> Array | None:
        """The records' own synthetic values (n, V), NaN elsewhere; None: fresh classes."""
        return np.where(self._shown, self.z.values, np.nan) if self.own else None

    def units(
        self, left_out: int | None = None, weights: Array | None = None, known: Flags | None = None
    ) -> Units:
        """What the sampler sees of the table and release, perhaps without one record's values.

        Of records that are not ``known`` (n,) there is what the release ties to them and leaves as
        it is. With fresh classes ``sum_y f(y) p(Z, y_us) / p(y_us) = p(Z, y_us)``: a row like any.
        """
        n = len(self.replaced)
        known = np.ones(n, dtype=bool) if known is None else known
        if self.own:
            own = self.y.without(~known[:, None] & self.synthesized, self.padding)
            rows = own.beside(self.z.without(~self._shown, self.padding), self.synthesized)
            says = known | ~self.synthesized.all() | self.replaced
            return rows.units(left_out=left_out, kept=says)
        both, given = known & self.replaced, None
        if self.synthesized.all():
            rows = self.y.below(*(z.take(self.rows) for z in (self.z, *self.others)))
        else:
            rows = self.y.below(self.z.take(~known))
            given = self.given(both, left_out) if both.any() else None
        more = np.ones(len(rows.positions) - n, dtype=bool)
        power = None if weights is None else np.append(weights, more)
        found = rows.units(given, left_out, power, np.append(known, more))
        return replace(found, unit=found.unit[:n])

    def around(self, known: Flags, *, release: bool = True) -> tuple[Units, Rows]:
        """Units of the known records with the release, or alone; and whole rows of the others."""
        rows, given = self.y, None
        if self.own:
            tied = self.z.without(~(self._shown & release), self.padding)
            rows = rows.beside(tied, self.synthesized)
        held = rows.take(known)
        if release and not self.own and self.synthesized.all():
            held = held.below(*(z.take(self.rows) for z in (self.z, *self.others)))
        elif release and not self.own and self.replaced.any():
            given = self.given(self.replaced, None)
        found = held.units(given)
        return replace(found, unit=found.unit[: int(known.sum())]), rows.take(~known)

    def given(self, whose: Flags, left_out: int | None = None) -> Given:
        """Synthetic rows of records whose own values are held too, and their denominators."""
        p_r = len(self.synthesized) - self.y.positions.shape[1]
        divided = np.where(whose, 1 + len(self.others), 0)
        if left_out is not None:  # p(Z_i, y_us,i) stays whole once: the intruder knows y_us,i
            divided[left_out] = max(divided[left_out] - 1, 0)
        kept = ~self.synthesized
        held = self.y.without(self.synthesized, self.padding).take(
            np.repeat(np.arange(len(divided)), divided)
        )
        released = [z.take(whose) for z in (self.z, *self.others)]
        parts = held._replace(positions=held.positions[:, kept[p_r:]])
        return Given(
            rows=released[0].below(*released[1:]).units(),
            parts=parts.units(),
            columns=np.flatnonzero(kept[p_r:]),
        )
