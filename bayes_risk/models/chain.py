"""Models by groups of columns, one after another, as synthpop's ``method=`` vectors.

Part k of K draws its columns Z_k given all that comes before them, Z_<k: the columns that no part
draws, and those of earlier parts. Its parameters are estimated from the same columns of the
confidential table, so that a release has the probability

    p(Z^(l) | y) = prod_k p_k(Z_k^(l) | Z_<k^(l), y_<k, y_k).

An intruder who knows every other record knows y entirely under each guess, and the log evidence of
a guess is the sum of the parts'. A guess of a column moves the part that draws it, and each later
part of which it is a predictor. So do log predictives of whole records, from which `membership`
takes its ratios: parameters of different parts are independent given the records that are known.

Of an intruder who knows the records A alone, the others are summed out. Where all columns of the
parts are synthesised and one draw of the parameters made the release, this leaves

    p(Z | y*, y_A) = prod_k int p_k(Z_k | Z_<k, theta_k) p_k(theta_k | y*, y_A) dtheta_k,

and logs add. With draws of their own, data sets share the unknown rows:

    p(Z^(1..m) | y*, y_A) = int p(y_U | y*, y_A) prod_l prod_k p_k(Z_k^(l) | Z_<k^(l), y) dy_U.

A part that is given columns of another ties its rows y_U to that part's, and the integral is no
product. Without such a part it is, and the parts impute their rows apart. Trees show how many
unknown records lie in each leaf, and may be given no column that another part draws.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arguments import taken
from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import Progress, ProgressOption, shows_progress
from bayes_risk._core.validate import is_sequence, known_columns
from bayes_risk.data.microdata import Codes, Microdata, checked_table
from bayes_risk.data.record_weights import survey_weights
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.by_column import factors_of
from bayes_risk.evidence.contract import (
    Capabilities,
    Offer,
    Targets,
    drawn_as,
    offers,
)
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.leave_one_out import ratio_of_fit
from bayes_risk.evidence.methods import EvidenceMethod, choose_method
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import Budget, EvidenceRunner, Fits, Sampling
from bayes_risk.intruder.guesses import GuessSet, Itself
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease

from .chain_parts import (
    Beside,
    ChainPosterior,
    ChainSampling,
    FittedPart,
    added_evidence,
    children_of,
    of_guesses,
)
from .fits.synthesis import Declaration, Request, Synthesis, made_columns
from .marginals import Marginals
from .mixture.dpmpm import DPMPM
from .mixture.mixture import Mixture
from .regression.regression import Regression
from .trees.cart import CART

CHAINS = 4  # of parts that are sampled, by default


@contextmanager
def _of_part(k: int, model: Any, about: str = "") -> Iterator[None]:
    """Errors name the part, counted from 1."""
    try:
        yield
    except InputError as error:
        name = type(model).__name__
        raise error.inside(f"part {k} of the chain ({name}){about}") from None


@dataclass(frozen=True, slots=True)
class Chain(Declaration):
    """Declaration of a model for each group of columns, in their order.

    Parameters
    ----------
    parts : list of models
        `CART` and `Regression` draw their columns given those before them. `Marginals` draws each
        of its ``columns`` by itself. `DPMPM` and `Mixture` draw their ``columns`` together: as the
        first part given the columns that no part draws, later independently of all other columns.

    Raises
    ------
    InputError
        No part, other models, columns that are not named or in two parts; exposures or impossible
        combinations in a mixture.

    Examples
    --------
    >>> from bayes_risk.models import CART, Regression
    >>> chain = Chain([CART(["job"]), Regression({"income": "1 + C(job)"})])
    >>> chain.synthesizes(["age", "job", "income"])
    ['job', 'income']
    """

    parts: Sequence[Declaration]

    def __post_init__(self) -> None:
        if not is_sequence(self.parts) or not len(self.parts):
            raise InputError("parts", "; give a list of models, such as [CART([...]), DPMPM(...)]")
        object.__setattr__(self, "parts", tuple(self.parts))
        where: dict[str, int] = {}
        for k, model in enumerate(self.parts, start=1):
            with _of_part(k, model):
                for name in drawn_by(model):
                    if name in where:
                        raise InputError(
                            f"column {name!r} is drawn by part {where[name]} too; name it once"
                        )
                    where[name] = k

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return [name for model in self.parts for name in drawn_by(model)]

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame,
        draws: int | None = None,
        *,
        tune: int | None = None,
        chains: int | None = None,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        missing_numbers: Mapping[str, float] | None = None,
        weights: Any = None,
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: ProgressOption = None,
    ) -> "ChainFit":
        """Fit each part to the columns before it and its own.

        Parameters
        ----------
        df : DataFrame
            The confidential table.
        draws, tune, chains : int, optional
            Of parts that are sampled; by default as each model has them.
        levels, releases, missing, missing_numbers
            See `Microdata.from_frame`. A column is a number, or a category, to all parts alike.
        weights, sample, random_seed, n_jobs, progress
            As in `DPMPM.fit`, for all parts.

        Raises
        ------
        InputError
            Columns that the table lacks; what a part refuses, with the number of the part; a
            column that parts read differently; parts that draw parameters in no common way.
        """
        df, weights = survey_weights(checked_table(df), weights)
        made = known_columns("parts", self.synthesizes(list(df.columns)), df)
        seen, fits = [c for c in df.columns if c not in made], list[Any]()
        how: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains}
        how = {key: value for key, value in how.items() if value is not None}
        how |= {"releases": releases, "missing": missing, "weights": weights, "sample": sample}
        how |= {"n_jobs": n_jobs, "progress": progress}
        *children, last = np.random.default_rng(random_seed).spawn(len(self.parts) + 1)
        for k, (model, child) in enumerate(zip(self.parts, children, strict=True), start=1):
            seen += (own := drawn_by(model))
            table = df[[c for c in df.columns if c in (seen if _given(model, k) else own)]]
            about = f", which sees {', '.join(map(str, table.columns))}"
            with _of_part(k, model, about):
                fits.append(_fitted(model, table, levels, missing_numbers, how, child))
        data, at = _together(df, self.parts, fits)
        parts = zip(fits, map(drawn_by, self.parts), at, strict=True)
        found = ChainFit(
            model=self,
            microdata=data,
            parts=tuple(FittedPart(fit=f, own=tuple(own), at=j) for f, own, j in parts),
            seed=int(last.integers(2**31)),
        )
        if not found.parameters:
            ways = "; ".join(f"part {k}: {', '.join(f.parameters)}" for k, f in enumerate(fits, 1))
            raise InputError(f"the parts draw parameters in no common way ({ways}); change a part")
        return found


def drawn_by(model: Any) -> list[str]:
    """The columns that a part draws, in their order."""
    if isinstance(model, CART | Regression):
        return model.synthesizes([])
    if not isinstance(model, DPMPM | Mixture | Marginals):
        raise InputError("cannot be in a chain; give CART, Regression, Marginals, DPMPM, Mixture")
    if model.columns is None:
        raise InputError("names no columns; give `columns=[...]`, those that the part draws")
    if getattr(model, "impossible", None) is not None:
        raise InputError("impossible", "is not offered in a chain; leave it out")
    if getattr(model, "exposure", None) is not None:
        raise InputError("exposure", "is not offered in a chain; leave it out")
    return list(model.columns)


def _given(model: Any, k: int) -> bool:
    """Whether part k draws its columns given those before them."""
    return isinstance(model, CART | Regression) or (k == 1 and not isinstance(model, Marginals))


def _fitted(
    model: Any, table: pd.DataFrame, levels: Any, missing_numbers: Any, how: Any, rng: Rng
) -> Any:
    if isinstance(model, Regression):
        table = table[model.columns_of(table)]
    elif not isinstance(model, CART):
        model = replace(model, columns=None)
    given = {"levels": levels, "missing_numbers": missing_numbers}
    for name, of in given.items():
        own = {c: v for c, v in (of or {}).items() if c in table}
        how |= {name: own or None}
    return model.fit(table, **taken(model.fit, **how, random_seed=rng))


def _together(
    df: pd.DataFrame, models: Sequence[Any], fits: Sequence[Any]
) -> tuple[Microdata, list[Ints]]:
    """All columns that parts have, as the part that draws them has them; where each part's are."""
    columns: dict[str, tuple[int, Variable | Number, Codes]] = {}
    for k, (model, fit) in enumerate(zip(models, fits, strict=True), start=1):
        data, own = fit.microdata, drawn_by(model)
        for variable, codes in zip(data.variables, data.codes.T, strict=True):
            name = variable.name
            first, as_first, those = columns.setdefault(name, (k, variable, codes))
            if as_first.n_levels != variable.n_levels or not np.array_equal(those, codes):
                kinds = ["a category" if v.n_levels else "a number" for v in (as_first, variable)]
                cure = "name its `missing_numbers`" if kinds[0] == kinds[1] else "list its `levels`"
                raise InputError(
                    f"column {name!r} is {kinds[0]} to part {first} of the chain and {kinds[1]} "
                    f"to part {k}, with other codes; {cure} (or make it a `pandas.Categorical`)"
                )
            if name in own:
                columns[name] = k, variable, codes
    names = [c for c in df.columns if c in columns]
    codes = np.column_stack([columns[c][2] for c in names])
    variables = tuple(columns[c][1] for c in names)
    at = [np.array([names.index(c) for c in fit.microdata.columns]) for fit in fits]
    return Microdata(codes=codes, variables=variables, index=fits[0].microdata.index), at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainFit(Synthesis):
    """Fits of the parts, each to the columns before it and its own."""

    model: Any
    microdata: Microdata  # all columns that parts have
    parts: tuple[FittedPart, ...]
    seed: int  # of what is read off draws

    @property
    def weights(self) -> Array | None:
        found: Array | None = self.parts[0].fit.weights
        return found

    @property
    def n_draws(self) -> int:
        """The fewest draws of a part that has any."""
        return min((d for d in (one.fit.n_draws for one in self.parts) if d), default=0)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Ways that all parts have, in the order of the first mixture, or part."""
        each = [one.fit.parameters for one in self.parts]
        first = next((ways for ways in each if "one-mode" in ways), each[0])
        return tuple(
            w for w in first if all(one.drawing(w) in one.fit.parameters for one in self.parts)
        )

    @property
    def diagnostics(self) -> Mapping[str, float]:
        """Draws and chains of the part that has the fewest draws, and the worst mixing of all."""
        sampled = [one.fit.diagnostics for one in self.parts if one.fit.n_draws]
        sampled = [found for found in sampled if found]
        if not sampled:
            return {}
        fewest = min(sampled, key=lambda found: found["draws"] * found["chains"])
        rhats = {k: max(one[k] for one in sampled) for k in ("max_rhat", "median_rhat")}
        sizes = {k: min(one[k] for one in sampled) for k in ("min_ess", "median_ess")}
        return {"draws": fewest["draws"], "chains": fewest["chains"], **rhats, **sizes}

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        lacking = f"there is no part; `parts` draw {list(self._modelled)}"
        made_columns(release, self.microdata, self._modelled, lacking)
        if release.classes == "own" or release.groups is not None:
            raise InputError(
                '`classes="own"` and groups are not offered for a chain; leave them out'
            )
        can, made = [], self._made(release)
        for one, part in made:
            with _of_part(1 + self.parts.index(one), one.fit.model):
                can.append(one.fit.capabilities(part, intruder))
        predict = all("log-prior" in one or _sampled(one) is not None for one in can)
        further, why = ["factors", *["log-prior"] * predict], ""
        further += ["point-masses"] * any("point-masses" in one for one in can)
        if intruder.knows_less:
            further.append("knowing")
            why = self._why_all_must_be_known(release, intruder, can)
        ways = [one["predictive"].strategy for one in can if "predictive" in one]
        beside = Beside(self, max((of.n_chains for of in ways if of is not None), default=CHAINS))
        if intruder.knows_target_in_file:
            # the strategy is of `membership`, which has no evidence computed
            how: Any = {"strategy": beside, "in_words": self._in_words, "workers": True}
            found = Offer("parts", compute=self.evidence, refusal=why, **how)
        elif why := why or self._why_ratios_do_not_add(made, can):
            found = Offer("predictive", refusal=why)
        else:
            found = Offer("predictive", self, strategy=beside)
        any_rows = all(one.any_rows for one in can)
        return Capabilities([found, *offers(self, *further)], any_rows=any_rows)

    def _why_ratios_do_not_add(
        self, made: Sequence[Any], can: Sequence[Capabilities], what: str = "in_file"
    ) -> str:
        """Why predictives of whole records are not those of the parts, added; or nothing."""
        for (one, _), of in zip(made, can, strict=True):
            if "predictive" not in of:
                needs = f"has no predictives, which {what} needs"
                name = one.name(1 + self.parts.index(one))
                return f"{name} {needs}; use DPMPM, Mixture or Regression"
        return ""

    def _why_all_must_be_known(
        self, release: EncodedRelease, intruder: Intruder, can: Sequence[Capabilities]
    ) -> str:
        """Why the parts' evidence does not add for who does not know all records; or nothing."""
        several, drawn = len(release.by_draw) > 1, self._modelled
        who, cure = intruder.in_words()[:-1], '; give knows_records="all-but-target"'
        if kept := [c for c in drawn if c not in release.synthesized]:
            return (
                f"{who}: column {kept[0]!r} of a part stays as it is, and reveals something of the "
                "other columns of records that are not known; synthesise all columns of the parts, "
                f"or{cure[1:]}"
            )
        for k, (one, of) in enumerate(zip(self.parts, can, strict=True), start=1):
            name = f"{who}: {one.name(k)}"
            given = [c for c in one.fit.microdata.columns if c in drawn and c not in one.own]
            if refused := [offer.refusal for offer in of.of_evidence if not of.methods]:
                return f"{name}: {refused[0]}"
            if given and isinstance(one.fit.model, CART):
                return f"{name} shows how many records lie in each class of {given[0]!r}{cure}"
            if given and several:
                return (
                    f"{name} is given {given[0]!r}, and m = {release.m} data sets share the "
                    f"records that are not known; give a release of one data set, or{cure[1:]}"
                )
            if several and "imputed" not in of:
                return f"{name} cannot impute records that are not known{cure}"
        return ""

    def knowing(self, known: Flags, release: EncodedRelease, *, rng: Rng, **how: Any) -> "ChainFit":
        """The parts given the known records alone."""
        each = zip(self._made(release), children_of(rng, len(self.parts)), strict=True)
        parts = [
            replace(one, fit=one.fit.knowing(known, part, rng=child, **how))
            for (one, part), child in each
        ]
        return replace(self, parts=tuple(parts))

    def mechanism(self, release: EncodedRelease) -> str:
        phrases = [
            f"part {1 + self.parts.index(one)} ({', '.join(part.synthesized)}): "
            f"{one.fit.mechanism(part)}"
            for one, part in self._made(release)
        ]
        return "; ".join(
            [*phrases, "trees and regressions are given the released columns before them"]
        )

    def _made(self, release: EncodedRelease) -> list[tuple[FittedPart, EncodedRelease]]:
        """The parts that made a release, and what each made."""
        release = replace(release, parameters=drawn_as(self, release))
        each = ((one, one.release(release)) for one in self.parts)
        return [(one, part) for one, part in each if part is not None]

    def _seen(
        self, release: EncodedRelease, targets: Targets
    ) -> Iterator[tuple[AuditProblem, EvidenceMethod, Ints]]:
        """The audit of each part that guesses move, how it is done, and its guess of each."""
        for one, part in self._made(release):
            if (seen := one.targets(targets)) is None:
                continue
            cases, cell = seen
            with _of_part(1 + self.parts.index(one), one.fit.model):
                problem = _problem(one.fit, part, cases)
                yield problem, choose_method(problem), cell

    def begin(self, fits: Fits, cases: Targets) -> Sampling:
        """Chains of all parts beside one another, whose predictives are of whole records."""
        guesses, whole = GuessSet.of(cases.profiles[None]), np.arange(cases.profiles.shape[1])
        cases = replace(cases, columns=whole, guesses=guesses)
        seen = [problem for problem, _, _ in self._seen(fits.release, cases)]
        can = [of.capabilities for of in seen]
        if why := self._why_ratios_do_not_add(self._made(fits.release), can, "membership"):
            raise InputError(why)
        each = zip(seen, children_of(fits.rng, len(seen)), strict=True)
        begun = [
            EvidenceRunner(problem, "predictive", child, fits.n_jobs, fits.progress).begun(
                problem.cases
            )
            for problem, child in each
        ]
        return ChainSampling(fits, self, begun)

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Rng
    ) -> "ChainPosterior":
        """The posteriors of the parts, each without the record."""
        made = [None] * len(self.parts) if release is None else [z for _, z in self._made(release)]
        each = zip(self.parts, made, start.each, children_of(rng, len(made)), strict=True)
        return ChainPosterior(
            self.parts,
            [
                [
                    one.fit.without(record, z, l, start=of, rng=generator)
                    for of, generator in zip(lots, children_of(child, len(lots)), strict=True)
                ]
                for one, z, lots, child in each
            ],
        )

    def _in_words(self, release: EncodedRelease, targets: Targets) -> str:
        each = self._seen(release, targets)
        phrases = [f"{', '.join(of.release.synthesized)} {method.name}" for of, method, _ in each]
        return f"parts: log evidence of the parts of the chain, added ({'; '.join(phrases)})"

    def evidence(
        self,
        release: EncodedRelease,
        targets: Targets,
        *,
        rng: Rng,
        progress: Progress | None,
        n_jobs: int,
        budget: Budget,
    ) -> Evidence:
        """Evidence of the parts, added; each is an audit of its own, of the guesses it can see."""
        seen = [*self._seen(release, targets)]
        found, apart = list[Evidence](), True
        if budget.target_mcse is not None:  # independent errors, of which the squares add
            budget = budget._replace(target_mcse=budget.target_mcse / len(seen) ** 0.5)
        for (problem, method, cell), child in zip(seen, rng.spawn(len(seen)), strict=True):
            runner = EvidenceRunner(problem, method.offer, child, n_jobs, progress)
            one = method.run(runner, problem.cases, budget)
            found.append(of_guesses(replace(one, base=runner.base(problem.cases, one)), cell))
            own = factors_of(problem.capabilities, method.name, problem.release, problem.cases)
            several = not isinstance(own, str) and len(own) > 1
            apart &= one.by_column is not None or not several
        whole = added_evidence(found)
        return whole if apart else replace(whole, by_column=None)

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The columns of the parts that guesses move, in their order."""
        names: list[str] = []
        for problem, method, _ in self._seen(release, targets):
            part = problem.release
            own = factors_of(problem.capabilities, method.name, part, problem.cases)
            if isinstance(own, str) and len(part.synthesized) > 1:
                return f"the columns {', '.join(part.synthesized)} are drawn together"
            names += part.synthesized if isinstance(own, str) else own
        return tuple(names)

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """What the parts expect of a record given its columns before theirs, added, (G, U)."""
        out, rng = np.zeros(targets.guesses.codes.shape[:2]), np.random.default_rng(self.seed)
        for problem, _, cell in self._seen(release, targets):
            part, cases, can = problem.release, problem.cases, problem.capabilities
            if (predicting := can.fit_for("log-prior")) is not None:
                out += predicting.log_prior(part, cases)[cell]
                continue
            posterior = partial(_sampled(can).informed, part)
            (child,) = rng.spawn(1)
            out += ratio_of_fit(posterior, cases, child, 1).value[cell]
        return out

    @property
    def _modelled(self) -> Sequence[str]:
        return [name for one in self.parts for name in one.own]

    def _tables(self, request: Request) -> Iterable[Codes]:
        tables = [request.table() for _ in request.rngs]
        for one, child in zip(self.parts, request.rngs[0].spawn(len(self.parts)), strict=True):
            names = [c for c in request.columns if c in one.own]
            if not names:
                continue
            for table, made in zip(tables, _drawn(one, names, request, tables, child), strict=True):
                for name in names:
                    j = one.fit.microdata.columns.index(name)
                    table[request.mask, one.at[j]] = made[request.mask, j]
        return tables

    def __repr__(self) -> str:
        each = enumerate(self.parts, start=1)
        lines = [
            f"  part {k}: {', '.join(one.own)} by {type(one.fit.model).__name__}" for k, one in each
        ]
        return "\n".join([f"ChainFit: {len(self.microdata.codes):,} records", *lines])


def _drawn(
    one: FittedPart, names: Sequence[str], request: Request, tables: Sequence[Codes], rng: Rng
) -> Iterable[Codes]:
    """Tables of a part in which it has drawn its columns, given those of the earlier parts."""
    fit: Any = one.fit
    m, mask = len(tables), request.mask
    n = len(mask) if len(mask) != len(fit.microdata.codes) else None
    records = None if n is not None or mask.all() else mask
    how: dict[str, Any] = {"parameters": one.drawing(request.parameters), "random_seed": rng}
    if isinstance(fit.model, DPMPM | Mixture):  # nothing before it is synthetic to it
        release = fit.synthesize(m, names, records, n=n, **how)
        return [fit.microdata.encode(table, "the part") for table in release.datasets]
    part_request = Request.of(fit, fit._modelled, m, names, **how)
    begun = (one.table(codes) for codes in tables)
    found: Iterable[Codes] = fit._tables(replace(part_request, mask=mask, begun=begun))
    return found


def _sampled(can: Capabilities) -> Any:
    """What has draws of a part's parameters; None: nothing."""
    return can.fit_for("predictive") or can.fit_for("imputed")


def _problem(fit: Any, release: EncodedRelease, cases: Targets) -> AuditProblem:
    """The audit of a part, which asks of the intruder only whether all records are known."""
    who = Intruder() if cases.known is None else Intruder(knows_records="none")
    can, nobody = fit.capabilities(release, who), np.zeros(0, dtype=np.int64)
    return AuditProblem(fit, release, who, can, Itself(), nobody, None, None, cases, nobody)
