"""Candidate releases made and measured side by side: audits over candidates and seeds."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core import handed
from bayes_risk._core.arguments import taken
from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.progress import ProgressOption, in_part, no_progress, shows_progress
from bayes_risk._core.validate import known_columns, whole_number
from bayes_risk.data.measures import JUDGED, MEASURES
from bayes_risk.intruder.grids import JointGrid
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.matching.households import HouseholdMatching, households_beside
from bayes_risk.matching.result import IdentificationRisk, MatchCounts, Matched
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.release import Release
from bayes_risk.risk.attribute import attribute_risk
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.utilities.bounds import release_bounds
from bayes_risk.utilities.result import Utility, utility

from .comparison import SEEDS, Comparison

Files = Release | list[pd.DataFrame]
Options = Mapping[str, Any]
ALL: Options = MappingProxyType({})
OF_HOUSEHOLDS = "households", "members"  # options that `identification_risk` has not
RESERVED = frozenset(
    ["fit", "df", "release", "releases", "original", "random_seed", "n_jobs", "progress"]
)
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A way to make a release, for `compare`.

    Parameters
    ----------
    model : declaration or Fit
        A declaration is fitted anew for every replicate; a fit makes all of them, so that they
        differ by synthesis alone.
    m : int
        Number of data sets of a release.
    columns : list of str, optional
        What is synthesised; what the model synthesises by default.
    fit : mapping, optional
        Further arguments of ``model.fit``: ``{"draws": 500, "tune": 500}``.
    synthesis : mapping, optional
        Further arguments of ``synthesize``: ``{"classes": "own"}``.
    attribute : mapping, optional
        Arguments of the attribute audit that are this candidate's own: ``{"evidence": "refit"}``.

    Examples
    --------
    >>> from bayes_risk.models import CART
    >>> Candidate(CART(order=["income"]), m=1).m
    1
    """

    model: Any
    _: KW_ONLY
    m: int = 5
    columns: Sequence[str] | None = None
    fit: Mapping[str, Any] = field(default_factory=dict)
    synthesis: Mapping[str, Any] = field(default_factory=dict)
    attribute: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole_number("m", self.m)
        if isinstance(self.model, type) or not (self.is_fit or hasattr(self.model, "fit")):
            raise InputError(
                f"{_named(self.model)} is not a model; give a declaration such as "
                'models.CART(order=["income"]), its fit, (fit, release), a Release, or DataFrames'
            )
        if self.is_fit and self.fit:
            raise InputError(
                f"{sorted(self.fit)} are for fitting, and the model is fitted already; leave them "
                "out"
            )
        if not self.is_fit:
            check_candidate_options("fit", self.fit, self.model.fit)

    @property
    def is_fit(self) -> bool:
        """Whether the model is fitted already."""
        return hasattr(self.model, "synthesize")

    def made(self, original: pd.DataFrame, seeds: Sequence[int], how: Options) -> tuple[Any, Files]:
        """The fit and its release, with a seed of each."""
        fit = self.model
        if not self.is_fit:
            given = taken(fit.fit, **how, random_seed=seeds[0])
            fit = fit.fit(original, **given, **self.fit)
        options: dict[str, Any] = {"m": self.m, "random_seed": seeds[1], **self.synthesis}
        if self.columns is not None:
            options["columns"] = list(self.columns)
        check_candidate_options("synthesis", options, fit.synthesize, frozenset())
        return fit, fit.synthesize(**options)


class Brought(NamedTuple):
    """Releases made already, each a replicate of one candidate, and their fit or None."""

    fit: Any
    releases: Sequence[Files]


def read_candidates(given: Any) -> dict[str, Candidate | Brought]:
    """What was given, by name; what is not a candidate is refused with its name."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            "candidates must be a dict of name to candidate, such as "
            '{"trees": models.CART(order=["income"]), "mixture": Candidate(models.DPMPM(), m=3)}'
        )
    found: dict[str, Candidate | Brought] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"candidate name {name!r} is not a text; name each candidate")
        try:
            found[name] = _read(value)
        except InputError as error:
            raise error.inside(f"candidate {name!r}") from None
    return found


def _read(value: Any) -> Candidate | Brought:
    fit = None
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "synthesize"):
        fit, value = value
        if not isinstance(value, Release):
            raise InputError(f"beside a fit stands {_named(value)}; give (fit, Release)")
    files = [value] if isinstance(value, Release | pd.DataFrame) else value
    if isinstance(files, list | tuple) and files:
        if all(isinstance(table, pd.DataFrame) for table in files):
            return Brought(fit, [list(files)])
        if all(isinstance(release, Release) for release in files):
            return Brought(fit, list(files))
    return value if isinstance(value, Candidate) else Candidate(value)


def _named(value: Any) -> str:
    return f"class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


class Estimate(NamedTuple):
    """A measure, its Monte Carlo error, and what it is without the release (utility: the null)."""

    value: float
    mcse: float
    beside: float


ABSENT = Estimate(NAN, NAN, NAN)


class CandidateMeasures(NamedTuple):
    """What is measured of every candidate; None: not measured."""

    original: pd.DataFrame
    attribute: Options | None  # targets: the same for all
    identification: Options | Callable[[Files], Options] | None
    utility: Options | None
    n_jobs: int
    thresholds: Any = None  # None: the default ones

    def measure(
        self, fit: Any, files: Any, seeds: Sequence[int], own: Options = ALL, progress: Any = None
    ) -> tuple[dict[str, Estimate], tuple[str, str]]:
        """Every number of one release, without a fit those that files give; seeds of two audits.

        And the verdicts on risk and utility; empty without a fit: `bayes_risk.app` judges files by
        their rows too.
        """
        found: dict[str, Estimate] = {}
        risk: AttributeRisk | None = None
        matches: Matched | None = None
        grouped: HouseholdMatching | None = None
        useful: Utility | None = None
        declared, how = isinstance(files, Release), {"n_jobs": self.n_jobs}
        if self.attribute is not None and fit is not None:
            options = sorted_guesses({**self.attribute, **own}, files.synthesized)
            options |= {"random_seed": seeds[0], "progress": progress, **how}
            risk = attribute_risk(fit, files, **options)
            found |= of_attribute(risk)
        if self.identification is not None:
            given = self.identification
            options = dict(given(files) if callable(given) else given)
            options = sorted_keys(options, files.synthesized) if declared else options
            households, members = (options.pop(name, None) for name in OF_HOUSEHOLDS)
            matches = identification_risk(self.original, files, **options)
            found |= of_identification(matches)
            if households is not None and isinstance(matches, IdentificationRisk):
                own = {"household": households.name, "members": members}
                table = self.original.assign(**{households.name: households})
                grouped = households_beside(matches, table, files, **own)
                found |= {} if grouped is None else _numbers(grouped.summary())
        if self.utility is not None:
            options = {**self.utility, "random_seed": seeds[1], **how}
            if declared:
                options.pop("synthesized", None)  # the release says it
            useful = utility(self.original, files, **options)
            found |= of_utility(useful)
        if fit is None or (risk is None and matches is None):
            return found, ("", "")
        diagnostics = getattr(fit, "diagnostics", {})
        verdict = handed.judge(
            risk,
            matches,
            self.thresholds,
            diagnostics=diagnostics,
            utility=useful,
            households=grouped,
        )
        return found | of_verdict(verdict), (str(verdict.outcome), verdict.usefulness or "")

    def check(self) -> None:
        """Every option has an argument, before anything is fitted."""
        if self.attribute is None and self.identification is None and self.utility is None:
            raise InputError("nothing to measure; give attribute, identification or utility")
        for what, options, function in (
            ("attribute", self.attribute, attribute_risk),
            ("identification", self.identification, identification_risk),
            ("utility", self.utility, utility),
        ):
            if isinstance(options, Mapping):
                more = OF_HOUSEHOLDS if what == "identification" else ()
                own = {name: one for name, one in options.items() if name not in more}
                check_candidate_options(what, own, function)
            elif options is not None and not (what == "identification" and callable(options)):
                raise InputError(what, options, "is not a dict of options; give one, or None")
        if isinstance(self.identification, Mapping):
            of, members = (self.identification.get(name) for name in OF_HOUSEHOLDS)
            if not isinstance(of, pd.Series | None) or (of is None and members is not None):
                right = "households must be a Series with the household of each record"
                raise InputError(f"identification: {right}; give df['hid']")
            keys = sorted_keys(self.identification, ())["known"]
            known_columns("identification", keys, self.original)


def check_candidate_options(
    what: str, options: Options, function: Callable[..., Any], reserved: Set[str] = RESERVED
) -> None:
    """Options are arguments of a function, and none of those that are given it anyway."""
    right = sorted(set(signature(function).parameters) - RESERVED)
    known = set(taken(function, **options)) - reserved
    for name in options:
        if name not in known:
            raise InputError(f"{what} has no option {name!r}; give some of {right}")


def same_targets(options: Options | None, n: int, rng: np.random.Generator) -> Options | None:
    """Draw a number of targets once, as a mask: all candidates are asked about the same."""
    wanted = options.get("targets") if isinstance(options, Mapping) else None
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
        return options
    mask: Flags = np.zeros(n, dtype=bool)
    mask[rng.choice(n, size=min(max(int(wanted), 1), n), replace=False)] = True
    return {**(options or {}), "targets": mask}


def sorted_keys(options: Options, made: Collection[str]) -> dict[str, Any]:
    """Keys as a release has them: those that it synthesised, and the others."""
    keys = [*options.get("known", ()), *options.get("synthesized", ())]
    own = [k for k in keys if k in made]
    return {**options, "known": [k for k in keys if k not in made], "synthesized": own}


def sorted_guesses(options: Options, synthesized: Sequence[str]) -> dict[str, Any]:
    """Grids of the columns that are guessed, and knowledge of those alone that were synthesised."""
    found, intruder, guesses = dict(options), options.get("intruder"), options.get("guesses")
    guessed = set(synthesized)
    if isinstance(intruder, Intruder):
        kept = tuple(c for c in intruder.knows_columns if c in synthesized)
        found["intruder"], guessed = replace(intruder, knows_columns=kept), guessed - set(kept)
    if isinstance(guesses, JointGrid):
        found["guesses"] = replace(
            guesses, grids={k: v for k, v in guesses.grids.items() if k in guessed}
        )
    elif isinstance(guesses, Mapping):
        found["guesses"] = {k: v for k, v in guesses.items() if k in guessed}
    return found


def of_attribute(risk: AttributeRisk) -> dict[str, Estimate]:
    """Numbers of an attribute audit."""
    found = _numbers(risk.summary()[["value", "mcse", "baseline"]])
    mean = found["mean_probability"]
    certain = Estimate(float(risk.certain().to_numpy().sum()), 0.0, NAN)
    gain = Estimate(mean.value - mean.beside, mean.mcse, 0.0)
    return found | {"gain": gain, "certain_values": certain}


def of_verdict(verdict: Any) -> dict[str, Estimate]:
    """The largest number over what is allowed, of those of which something is allowed."""
    risks = [r for r in verdict.reasons if "use" not in r.outcome and r.of_allowed is not None]
    known = [r.of_allowed for r in risks if np.isfinite(r.of_allowed[1])]
    if not known:
        return {}
    _, most, high = max(known, key=lambda of: of[1])
    return {"over_allowed": Estimate(most, min(high - most, 1e3) / 2, NAN)}


def of_identification(risk: Matched) -> dict[str, Estimate]:
    """Numbers of a matching audit: pooled, and their means over data sets."""
    found: dict[str, Estimate] = {}
    if isinstance(risk, MatchCounts):  # no match is right or wrong
        return found
    without = {"true_match_rate": NAN if (k := risk.baseline_true_matches) is None else k / risk.n}
    for row, prefix in (("pooled", ""), ("mean", "mean_")):
        of = risk.summary().astype(float).loc[row].to_dict()
        expected = Estimate(of["expected_match_risk"], of["mcse"], of["baseline"])
        found[f"{prefix}expected_match_risk"] = expected
        for name in ("true_match_rate", "false_match_rate"):
            found[f"{prefix}{name}"] = Estimate(of[name], NAN, without.get(name, NAN))
    return found


def of_utility(found: Utility) -> dict[str, Estimate]:
    """Numbers of utility, means over data sets; NaN errors for one data set."""
    rows = found.summary()
    return _numbers(rows.assign(sd=rows["sd"] / found.m**0.5)[["value", "sd", "null"]])


def _numbers(rows: pd.DataFrame) -> dict[str, Estimate]:
    return {str(k): Estimate(*map(float, of)) for k, *of in rows.itertuples() if k in MEASURES}


@shows_progress
def compare(
    candidates: Mapping[str, Any],
    original: pd.DataFrame,
    *,
    attribute: Options | None = None,
    identification: Options | Callable[[Files], Options] | None = None,
    utility: Options | None = ALL,
    replicates: int = 5,
    bounds: bool | Options = False,
    thresholds: Any = None,
    random_seed: int | None = None,
    n_jobs: int = 1,
    progress: ProgressOption = None,
) -> Comparison:
    """Risk and utility of several ways to make a release, replicated over seeds.

    Parameters
    ----------
    candidates : dict of name to candidate
        A model, fitted and synthesised for every replicate; a fit, synthesised for every replicate;
        a `Candidate`, with m, columns and further options; ``(fit, release)``, one replicate; a
        `Release` or list of DataFrames made elsewhere, one replicate; or a list of such `Release`,
        one replicate each.
    original : DataFrame of n records
        The confidential file. Never changed.
    attribute : dict, optional
        Arguments of `attribute_risk`: ``{"targets": 200}``. Not measured by default, nor of
        releases that were made elsewhere.
    identification : dict, optional
        Arguments of `identification_risk`: ``{"known": [...], "synthesized": [...]}``; or a
        function of the released files that gives them. With ``"households": df["hid"]``, and
        perhaps ``members``, `household_matching` too. Not measured by default.
    utility : dict or None
        Arguments of `utility`; None: not measured.
    replicates : int
        How often a model, or fit, makes its release.
    bounds : bool or dict
        Measure the releases at the ends of the scale too (`release_bounds`), of all columns that
        any candidate synthesises; a dict gives arguments: ``{"patterns": ["sex", "age"]}``.
    thresholds : Thresholds, optional
        Thresholds for each release of a model, in `Comparison.verdicts`. Releases made elsewhere
        are not judged here; ``bayes-risk identify`` judges them.
    random_seed : int, optional
        Same seed, same numbers, for any ``n_jobs``. Those of a candidate depend on its name, and
        not on what it is compared with.
    n_jobs : int
        Workers of each fit, audit and utility.
    progress : callable or bool, optional
        Called as ``progress(candidate, replicates done, in part too, replicates in all)``.
        By default a bar in terminals and notebooks; False: none.

    Raises
    ------
    InputError
        What is not a candidate or option; whatever the parts refuse, with the candidate's name.

    Notes
    -----
    *The same question for all.* A number of ``targets`` is drawn once; keys, grids of guesses and
    ``knows_columns`` are sorted for each `Release` by what it synthesised. A neighbourhood still
    has more guesses where more is: compare ``gain``, or each risk with its ``baseline``.

    *Every number is that of its part*, to the byte: ``seed_table`` has the seeds with which
    `attribute_risk` and `utility` were called.

    *Replicates* show what another seed would have given, not another sample.

    Cost: for each candidate and replicate one fit, release, audit and utility.

    References
    ----------
    Hornby & Hu (2021), Transactions on Data Privacy 14, 37-52, Figures 8-10. Duncan, Keller-McNulty
    & Stokes (2001), NISS technical report 121.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayes_risk.models import CART
    >>> df = pd.DataFrame({"sex": list("fm") * 20, "job": list("aabbc") * 8})
    >>> found = compare(
    ...     {"few leaves": CART(order=["job"], min_leaf=20), "many": CART(order=["job"])},
    ...     df, identification={"known": ["sex"], "synthesized": ["job"]}, replicates=2,
    ...     random_seed=1,
    ... )
    >>> found.replicates.shape[0]
    4
    """
    read = read_candidates(candidates)
    whole_number("replicates", replicates)
    if random_seed is None:
        random_seed = int(np.random.default_rng().integers(2**31))
    rng = np.random.default_rng(whole_number("random_seed", random_seed))
    targeted = same_targets(attribute, len(original), rng.spawn(1)[0])
    audit = CandidateMeasures(original, targeted, identification, utility, n_jobs, thresholds)
    audit.check()
    found, report = dict[tuple[str, int], Measured](), progress or no_progress
    sizes = {
        name: len(candidate.releases) if isinstance(candidate, Brought) else replicates
        for name, candidate in read.items()
    }
    for name, size in sizes.items():
        report(name, 0, size)
    for r in range(max(sizes.values())):  # what is wrong with any of them shows in the first round
        for name, candidate in read.items():
            if r < sizes[name]:
                tell = in_part(report, name, r, sizes[name])
                own_seeds = replicate_seeds(random_seed, name, r)
                found[name, r] = _replicate(audit, own_seeds, (name, r), candidate, tell)
                report(name, r + 1, sizes[name])
    last = {name: of for (name, _), of in found.items()}  # replicate of each candidate
    known = {k for of in found.values() for k, n in of.numbers.items() if n.value == n.value}
    measures, names = tuple(name for name in MEASURES if name in known), tuple(sizes)
    shape = (len(names), max(sizes.values()))
    parts: Array = np.full((3, *shape, len(measures)), np.nan)
    seeds = np.full((*shape, len(SEEDS)), -1, dtype=np.int64)
    judged: Array = np.full((*shape, 3), np.nan)
    for (name, r), of in found.items():
        c = names.index(name)
        certain, over = (of.numbers.get(one, ABSENT) for one in JUDGED)
        judged[c, r] = certain.value, over.value, over.mcse
        seeds[c, r] = replicate_seeds(random_seed, name, r)
        parts[:, c, r] = np.transpose([of.numbers.get(measure, ABSENT) for measure in measures])
    outcomes = [
        tuple(
            tuple(found[name, r].outcomes[k] for r in range(size)) for name, size in sizes.items()
        )
        for k in (0, 1)
    ]
    ends = None
    if bounds is not False:
        three = _ends(audit, random_seed, bounds, list(last.values()))
        ends = np.array([[row.get(name, ABSENT).value for name in measures] for row in three])
    return Comparison(
        names=names,
        measures=measures,
        values=parts[0],
        errors=parts[1],
        beside=parts[2],
        seeds=seeds,
        replicates_of=tuple(sizes.values()),
        m=tuple(last[name].m for name in names),
        synthesized=tuple(last[name].synthesized for name in names),
        ends=ends,
        outcomes=outcomes[0],
        usefulness=outcomes[1],
        useful_at=getattr(thresholds, "utility", None) or {},
        judged=judged,
        random_seed=random_seed,
    )


class Measured(NamedTuple):
    """Numbers of one release, its number of data sets, what was synthesised (empty: not said)."""

    numbers: dict[str, Estimate]
    m: int
    synthesized: tuple[str, ...]
    outcomes: tuple[str, str] = ("", "")  # of risk and utility; empty: it was not judged


def replicate_seeds(random_seed: int, name: str, replicate: int) -> list[int]:
    """Seeds of a replicate, counted from 0: of fit, release, attribute risk, and utility."""
    source = np.random.SeedSequence([random_seed, replicate, *name.encode()])
    return [int(seed) for seed in source.generate_state(len(SEEDS))]


def _replicate(
    audit: CandidateMeasures, seeds: Sequence[int], of: tuple[str, int], candidate: Any, tell: Any
) -> Measured:
    """One replicate of a candidate made and measured."""
    name, r = of

    def measured() -> Measured:
        own = ALL
        if isinstance(candidate, Brought):
            fit, files = candidate.fit, candidate.releases[r]
        else:
            how, own = {"n_jobs": audit.n_jobs, "progress": tell}, candidate.attribute
            fit, files = candidate.made(audit.original, seeds, how)
        numbers, outcomes = audit.measure(fit, files, seeds[2:], own, tell)
        if isinstance(files, Release):
            made = tuple(map(str, files.synthesized))
            return Measured(numbers, files.m, made, outcomes)
        return Measured(numbers, len(files), (), outcomes)

    try:
        return stage(f"{name}, replicate {r + 1}", measured)
    except ModelError as error:
        raise ModelError(f"candidate {name!r}: {error}") from error
    except InputError as error:
        raise error.inside(f"candidate {name!r}") from None


def _ends(
    audit: CandidateMeasures, random_seed: int, bounds: bool | Options, last: Sequence[Measured]
) -> list[dict[str, Estimate]]:
    """The measures of minimum, maximum and unchanged release."""
    options: dict[str, Any] = {} if bounds is True else dict(bounds or {})
    check_candidate_options("bounds", options, release_bounds)
    any_made = {name for found in last for name in found.synthesized}
    made = [name for name in audit.original.columns if str(name) in any_made]
    usual: dict[str, Any] = {"synthesized": made, "m": max(found.m for found in last)}
    seeds = replicate_seeds(random_seed, "bounds", 0)
    ends = release_bounds(audit.original, random_seed=seeds[1], **usual | options)
    three = (ends.minimum, ends.maximum, ends.unchanged)
    return [audit.measure(None, release, seeds[2:])[0] for release in three]
