"""A fitted mixture: synthesis, augmented fits, and the densities that the evidence asks for."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import weights_in_words
from bayes_risk.evidence.contract import (
    Capabilities,
    Offer,
    Predictive,
    Progress,
    Targets,
    drawn_as,
    offers,
    why_all_must_be_known,
)
from bayes_risk.evidence.household import IndependentPersons
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Fitted, Request, Ticker
from bayes_risk.release.release import EncodedRelease, Release

from .columns import Columns, Mechanism
from .families import draw_labels
from .modes import SHORTEST, Lengths, ReleaseModes, draws_beside
from .posterior import MixturePosterior
from .state import Draws, Prior, Rows, Units
from .unknown import BASE_CHAINS, Imputed, UnknownRecords
from .zeros import possible_rows

IMPUTED_SHARE = 2  # an imputed draw costs m and the base chains' sets of sums
IN_WORDS = {
    "predictive": "predictive: leave-one-out predictives before and after seeing the release, "
    "the records that are not known integrated out",
    "imputed": "imputed: predictives before and after seeing all releases, the records that "
    f"are not known imputed in the sampler; p(y_j | y_-j) of an imputed record by {BASE_CHAINS}"
    " base chains (an approximation, unless there is one class)",
    "independent-releases": "independent-releases: predictives before and after seeing each "
    "release, multiplied as if the releases did not share the records that are not known (an "
    "approximation)",
}


def _at_theta(posterior: MixturePosterior, targets: Targets) -> list[Predictive]:
    return [posterior.at_theta(targets, None, posterior.conditional)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixtureFit(Fitted):
    """A fitted mixture.

    Attributes
    ----------
    model : DPMPM, PoissonMixture or Mixture
    microdata : Microdata
    idata : xarray.DataTree or arviz.InferenceData
        ``posterior``; ``sample_stats`` with ``n_occupied``; ``log_predictive`` with R-hat and ESS
        of log p(record | Theta) for up to 300 distinct records, rare and frequent ones (labels of
        classes switch, so R-hat of weights or levels means nothing).
    posterior : MixturePosterior
        The draws as the engine uses them.
    diagnostics : dict
        The same in short, plain numbers.
    weights : ndarray, shape (n,), or None
        Weights of the records in the pseudo-posterior; None: all count in full.
    known : ndarray of bool, shape (n,), or None
        Records whose values the fit has seen; None: all.
    whole : MixturePosterior, or None
        Where only some are known: draws given all records, from which chains start.
    lengths : Lengths, or None
        Where a release has led the chains: how long they ran.
    """

    model: Any
    microdata: Microdata
    idata: Any
    posterior: MixturePosterior
    diagnostics: dict[str, float]
    weights: Array | None = None
    known: Flags | None = None
    whole: MixturePosterior | None = None
    lengths: Lengths | None = None

    ABOUT: ClassVar[str] = "the model and its priors are known, not its parameters; drawn from "
    CLASSES: ClassVar[Mapping[str, str]] = {
        "new": "a fresh latent class for every record, given its unsynthesised values",
        "own": "the latent class of the record's own confidential values",
    }

    @property
    def prior(self) -> Prior:
        """Hyper-parameters and layout."""
        return self.posterior.prior

    @property
    def draws(self) -> Draws:
        """The draws of Theta."""
        return self.posterior.draws

    @property
    def columns(self) -> Columns:
        """Which column is of which family."""
        return self.posterior.columns

    @property
    def synthesizable(self) -> list[str]:
        """Columns that may be synthesised."""
        names = self.microdata.columns
        return [names[j] for j in np.unique(self.columns.order)]

    @property
    def n_draws(self) -> int:
        """Number H of draws, of led chains those on y and a data set, the fewest."""
        steps = self.lengths
        return self.posterior.n_draws if steps is None else self.n_chains * steps.augmented

    @property
    def n_chains(self) -> int:
        return self.posterior.n_chains

    @property
    def parameters(self) -> tuple[str, ...]:
        if self.posterior.prior.zeros is None:
            return "one-mode", "independent", "shared"
        return "independent", "shared"

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        self.check(release)
        found = offers(self, "knowing", *["full-table"] * self.posterior.tabulates)
        if not intruder.knows_less:
            of_one_mode = drawn_as(self, release) in ("one-mode", "shared")
            strategy = ReleaseModes(self) if of_one_mode and "one-mode" in self.parameters else None
            found += [Offer(name, self, strategy=strategy) for name in ("predictive", "refit")]
            found += offers(self, "importance")
            if self.weights is None and release.classes == "new":
                found.append(Offer("household", IndependentPersons(_at_theta)))
        elif why := why_all_must_be_known(self, release):
            found.append(Offer("predictive", refusal=why))
        else:
            zeros, names = self.prior.zeros is not None, ["predictive"]
            if release.m > 1:
                names = ["independent-releases", *["imputed"] * (not zeros)]
            if not zeros or release.columns[self.columns.order].all():
                found += [Offer(name, self, in_words=IN_WORDS[name]) for name in names]
        return Capabilities(found, any_rows=True)

    def check(self, release: EncodedRelease) -> None:
        """Refuse a release that the model cannot have drawn."""
        names, offered = self.microdata.columns, self.synthesizable
        others = [c for c in release.synthesized if c not in offered]
        if others:
            raise InputError(
                f"the release has column {others[0]!r} synthesised, which the model does not "
                f"synthesise; it models {offered}"
            )
        columns = self.columns
        for l, codes in enumerate(release.codes, start=1):
            for v, column in enumerate(columns.order[: self.prior.n_numbers]):
                x, real = codes[:, column].astype(float), v - len(columns.counts)
                cure = "; counts are whole and not negative: round them"
                bad = (x < 0) | (x != np.floor(x))
                if real >= 0:
                    cure = ": it has no logarithm; fit the column as 'normal'"
                    bad = np.isinf(columns.inside(x, real))
                bad &= x != columns.missing[v]
                if bad.any():
                    raise InputError(
                        f"column {names[column]!r} of release {l} holds a value in row "
                        f"{int(bad.argmax()) + 1} that the model excludes{cure}, or audit with "
                        "another model"
                    )
        self._check_classes(release.classes)

    def _check_classes(self, classes: str) -> None:
        if classes == "own" and self.weights is not None:
            raise InputError(
                "classes",
                "own",
                "is not offered for a fit with record weights: a record would leave its trace in "
                'its own class, whatever its weight; use `classes="new"`',
            )
        if classes == "own" and self.prior.zeros is not None:
            raise InputError(
                "classes",
                "own",
                "is not offered together with impossible: what is possible would have to be "
                'normalised in each class apart; use `classes="new"`',
            )

    def knowing(
        self, known: Flags, release: EncodedRelease, *, progress: Progress | None = None, **how: Any
    ) -> Any:
        """The model fitted anew to known records and what the release leaves as it is."""
        base = self.posterior
        shown = ~release.columns[self.columns.order]
        fit = replace(self, posterior=replace(base, shown=shown), known=known, whole=base)
        refitted = partial(
            base.refitted,
            fit._units_before(),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            tick=Ticker(progress, "known records", base.n_draws),
            **how,
        )
        posterior = stage("fit to known records", refitted)
        return replace(fit, posterior=replace(posterior, shown=shown))

    def informed(self, release: EncodedRelease) -> MixturePosterior:
        return self.posterior

    @property
    def digest(self) -> str:
        """By which a release tells whether it was made by these draws."""
        return hashlib.blake2b(self.draws.alpha.tobytes(), digest_size=16).hexdigest()

    def tabulated(self, posterior: MixturePosterior, targets: Targets, *, rng: Rng) -> Any:
        return posterior.predictives(targets, rng=rng)[0]

    def mechanism(self, release: EncodedRelease) -> str:
        return f"{self.ABOUT}{self.CLASSES[release.classes]}{weights_in_words(self.weights)}"

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        n: int | None = None,
        classes: str = "new",
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        one_of("classes", classes)
        self._check_classes(classes)
        request = self._request(m, columns, records, parameters, random_seed).of_rows(n, classes)
        h, rng = next(iter(request.draws()))
        first = self._table(h, request, classes, rng)
        if request.parameters == "one-mode" and m > 1:
            alone = replace(request, rngs=request.rngs[:1], draw_index=(h,))
            release = EncodedRelease.of(alone.release([first], classes=classes), self.microdata)
            among = draws_beside(self.posterior, release, h, m - 1)
            others = rng.choice(among, size=m - 1, replace=False)
            request = replace(request, draw_index=(h, *map(int, others)))
        rest = list(request.draws())[1:]
        tables = (self._table(h, request, classes, rng) for h, rng in rest)
        return request.release(chain([first], tables), classes=classes)

    def _request(
        self, m: int, columns: Any, records: Any, parameters: Any, random_seed: Any
    ) -> Request:
        request = Request.of(
            self,
            self.synthesizable,
            m,
            columns,
            records,
            parameters=parameters,
            n_chains=self.n_chains,
            random_seed=random_seed,
        )
        if columns is not None:
            request = replace(request, columns=tuple(columns))  # drawn in the order asked for
        return replace(request, maker=self.digest)

    def _table(self, h: int, request: Request, classes: str, rng: Rng) -> Codes:
        """One synthetic table, in codes."""
        prior, columns, names = self.prior, self.columns, self.microdata.columns
        pi, phi = self.draws.pi[h], self.draws.phi[h]
        codes = request.table()
        where = np.array([names.index(c) for c in request.columns])
        made = columns.variables(where)
        rows = columns.rows(codes[request.mask], prior)
        synthesized = np.isin(np.arange(len(columns.order)), made)
        if prior.n_numbers == 0:
            given = rows.positions if classes == "own" else rows.positions[:, ~synthesized]
            out = possible_rows(prior, given, ~synthesized, pi, phi, made, rng=rng)
            codes[np.ix_(request.mask, where)] = out
            return codes
        new = np.empty((len(rows.positions), len(made)))
        exposure = columns.exposures(codes[request.mask])
        if classes == "new":
            rows = rows.without(synthesized, prior.width - 1)
        label = self._labels(rows, h, rng)
        for i, v in enumerate(made.tolist()):
            new[:, i] = self._values(v, exposure, label, h, rng)
        for i, number in enumerate(columns.may_be_missing):
            flag = made == prior.n_numbers + len(columns.levels) + i
            if flag.any():
                gone = new[:, flag][:, 0] > 0
                new[gone, np.flatnonzero(made == number)[0]] = columns.missing[number]
        of_column = [np.flatnonzero(made == columns.variables(np.array([j]))[0])[0] for j in where]
        codes[np.ix_(request.mask, where)] = new[:, of_column]
        return codes

    def _labels(self, rows: Rows, h: int, rng: Rng) -> Ints:
        """A class of each row given what it tells, shape (n,)."""
        label, draw = np.empty(len(rows.positions), np.int16), self.draws
        ones, nothing = np.ones(len(label), np.int64), (np.empty(0), np.empty((0, 0)))
        units = Units(data=rows, multiplicity=ones, unit=ones).arrays
        # writeable, as in the sampler: of each kind of array everything is compiled anew
        fixed = draw.pi[h].copy(), draw.phi[h].copy(), self.prior.layout
        flags, size = np.empty((0, 0), bool), np.empty(0, np.int64)
        draw_labels(rng, units, *fixed, *nothing, label, flags, size)
        return label.astype(np.int64)

    def _values(self, v: int, exposure: Array, label: Ints, h: int, rng: Rng) -> Array:
        """Values of one variable in these classes, as the table has them."""
        prior, phi = self.prior, self.draws.phi[h]
        p, r = prior.n_counts, prior.n_reals
        if v < p:
            values: Array = rng.poisson(exposure[:, v] * phi[v, label]).astype(np.float64)
            if prior.inflation is not None:
                values[rng.random(len(label)) < phi[p + v, label]] = 0.0
            return values
        if v < p + r:
            j = v - p
            noise = rng.standard_normal(len(label)) / np.sqrt(phi[2 * p + r + j, label])
            t = phi[2 * p + j, label] + noise
            return self.columns.outside(t, j)
        begin, end = prior.starts[v - p - r], prior.starts[v - p - r + 1]
        below = phi[begin : end - 1].cumsum(axis=0)[:, label]  # shape (d - 1, n)
        return np.asarray((rng.random(len(label)) >= below).sum(axis=0).astype(np.float64))

    def augmented(
        self, release: EncodedRelease, l: int, *, progress: Progress | None = None, **how: Any
    ) -> MixturePosterior:
        drawn_by = Mechanism.of_draw(release, l, self.columns, self.prior)
        base = self.whole or self.posterior
        posterior = base.refitted(
            drawn_by.units(None, self.weights, self.known),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, SHORTEST),
            n_draws=None if self.lengths is None else self.lengths.augmented,
            linked=drawn_by.linked,
            conditional=drawn_by.conditional,
            tick=Ticker(progress, f"release {l + 1}", self.n_draws),
            **how,
        )
        return replace(posterior, shown=self.posterior.shown)

    def imputed(
        self, release: EncodedRelease, *, progress: Progress | None = None, **how: Any
    ) -> Imputed:
        """p(Theta^(1..m), y_U | y_A, Z^(1..m)): half the fit's draws, half its sweeps."""
        start, size = self.whole or self.posterior, self.n_draws // self.n_chains
        known = np.ones(len(self.microdata.codes), bool) if self.known is None else self.known
        hows = Mechanism.of(release, start.columns, start.prior)
        draws = max(size // IMPUTED_SHARE, 4)
        return Imputed.sampled(
            UnknownRecords(prior=start.prior, columns=start.columns, hows=hows, known=known),
            start.draws,
            draws=draws,
            tune=max(start.n_sweeps // 8, 50),
            thin=max(start.n_sweeps // (2 * draws), 1),
            **how,
            tick=Ticker(progress, "unknown records", draws * start.n_chains),
        )

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Rng
    ) -> MixturePosterior:
        size = self.posterior.n_draws // self.posterior.n_chains
        how: Any = {"rng": rng, "n_draws": max(size // 2, 4), "thin": max(start.thin // 8, 1)}
        how["tune"] = max(start.n_sweeps // 100, 100)
        if self.lengths is not None:  # they stay in the mode, of which moves would only lead out
            start = replace(start, prior=replace(start.prior, splits=0))
        units, linked = self._units_before(record), None
        if release is not None:
            drawn_by = Mechanism.of_draw(release, l, self.columns, self.prior)
            units, linked = drawn_by.units(record, self.weights, self.known), drawn_by.linked
        again: MixturePosterior = start.refitted(units, linked=linked, **how)
        return again

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> Predictive:
        """p(y* | Theta_h) itself, jointly with the record's own synthetic values where linked."""
        if l is None:
            return self.posterior.at_theta(targets, None)
        (drawn_by,) = Mechanism.of(release, self.columns, self.prior, [l])
        return self.posterior.at_theta(targets, drawn_by.linked)

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> Array:
        return self.posterior.log_release(release, draws)

    def _units_before(self, left_out: int | None = None) -> Units:
        """The known records, perhaps without one, and what a release leaves as it is of others."""
        rows = self.columns.rows(self.microdata.codes, self.prior)
        shown, known = self.posterior.shown, self.known
        if known is None or shown is None:
            return rows.units(left_out=left_out, power=self.weights)
        rows = rows.without(~known[:, None] & ~shown, self.prior.width - 1)
        return rows.units(left_out=left_out, kept=known | bool(shown.any()))

    def __repr__(self) -> str:
        d, p = self.diagnostics, len(np.unique(self.columns.order))
        return (
            f"{type(self).__name__}: {len(self.microdata.codes):,} records, "
            f"{p} variables, {d['chains']:.0f} chains of {d['draws']:.0f} "
            f"draws\n  occupied classes {d['n_occupied_mean']:.1f} of {d['n_classes']:.0f}; log "
            f"predictives: R-hat up to {d['max_rhat']:.3f}, ESS from {d['min_ess']:.0f}"
        )
