"""The ways to the evidence, each with what it takes of a fit, and which one an audit goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

from .contract import Targets, model_name, without_weights
from .evidence import Evidence
from .problem import AuditProblem
from .runner import Budget, EvidenceRunner


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvidenceMethod:
    """A way to the evidence."""

    name: str  # As `attribute_risk` names it
    # evidence of cases by a runner, within a budget; None: only the model can compute it
    sample: Callable[[EvidenceRunner, Targets, Budget], Evidence] | None = None
    how: str  # In words
    cure: str  # What to do about records that it leaves unreliable
    min_ess: float = 0.0  # Effective draws below which a record is unreliable
    usual: bool = True  # Whether it is taken without being asked for
    by_release: bool = True  # Whether its evidence comes release by release
    balanced: bool = False  # Whether the expectation of its evidence is known (`balance`)
    based: bool = False  # Whether draws of a base fit give predictives, unless the model computes

    @property
    def in_words(self) -> str:
        """For reports: name and way."""
        return f"{self.name}: {self.how}"

    def run(self, runner: EvidenceRunner, cases: Targets, budget: Budget) -> Evidence:
        """Evidence of every case."""
        if self.sample is None or self.name in runner.can.computed:
            return runner.closed_form(self.name, cases)
        return self.sample(runner, cases, budget)


_MORE = "give a larger refit_budget, a target_mcse, or a fit with more draws"
_LONGER = "give a target_mcse or a fit with more draws"
METHODS = {
    method.name: method
    for method in (
        EvidenceMethod(
            name="exact", how="in closed form", cure="look at the worst records", balanced=True
        ),
        EvidenceMethod(
            name="predictive",
            sample=EvidenceRunner.predictive,
            how="leave-one-out predictives before and after seeing the release",
            cure=_MORE,
            balanced=True,
            based=True,
        ),
        EvidenceMethod(
            name="imputed",
            sample=EvidenceRunner.imputed,
            how="predictives before and after seeing all releases, the records that are not "
            "known imputed in the sampler",
            cure=_LONGER,
            by_release=False,
            based=True,
        ),
        EvidenceMethod(
            name="independent-releases",
            sample=EvidenceRunner.predictive,
            how="predictives before and after seeing each release, multiplied as if the releases "
            "did not share the records that are not known (an approximation)",
            cure=_MORE,
            based=True,
        ),
        EvidenceMethod(
            name="monte-carlo",
            how="in closed form but for the bootstrap within leaves, which is integrated by "
            "simulation",
            cure="look at the worst records: the leaves they stand in show many values",
            min_ess=10.0,
            by_release=False,
        ),
        EvidenceMethod(
            name="refit",
            sample=EvidenceRunner.refit,
            how="models fitted anew, without the target or for each of its guesses",
            cure=_LONGER,
            balanced=True,
            based=True,
        ),
        EvidenceMethod(
            name="importance",
            sample=EvidenceRunner.importance,
            how="the published importance sampler over draws given the confidential table",
            cure='use evidence="predictive"',
            min_ess=100.0,
            usual=False,
        ),
        EvidenceMethod(
            name="weaker",
            sample=EvidenceRunner.weaker,
            how="",
            cure="give a fit with more draws, or more classes where all are occupied",
            min_ess=10.0,
            by_release=False,
        ),
    )
}
RENAMED = {"product": "independent-releases", "reuse": "importance", "simulated": "monte-carlo"}
EVIDENCE = tuple(name for name in METHODS if name != "weaker")
USUAL = tuple(name for name in EVIDENCE if METHODS[name].usual)


def choose_method(
    problem: AuditProblem, asked: str | None, ways: Sequence[str] = USUAL
) -> EvidenceMethod:
    """The way to the evidence that was asked for, if it is offered; else the first of some."""
    intruder, can, name = problem.intruder, problem.capabilities, model_name(problem.fit)
    if intruder.is_competitor:
        knows = f"knows_records={intruder.knows_records!r}"
        if can.weaker is None:
            raise InputError(
                f"{knows} is not offered by {name}; it is by PoissonMixture; give "
                'knows_records="all-but-target"'
            )
        if asked is not None:
            raise InputError(
                "evidence",
                asked,
                f"is for an intruder who knows every other record; with {knows} leave it out: the "
                "model computes it",
            )
        if can.none_because:
            raise InputError(can.none_because)
        return METHODS["weaker"]
    if asked in RENAMED:
        raise InputError("evidence", asked, f"is now called {RENAMED[asked]!r}; give that")
    if intruder.knows_less and problem.fit.weights is not None:
        raise InputError(without_weights(intruder))
    if intruder.knows_less and can.partial is None and not can.none_because:
        raise InputError(
            f"{intruder.in_words()[:-1]}: {name} offers no evidence for that; give "
            'knows_records="all-but-target"'
        )
    if why := can.none_because or can.reasons.get(asked or ""):  # the model's own refusals
        raise InputError(why)
    wanted = ways if asked is None else [one_of("evidence", asked, EVIDENCE)]
    for way in wanted:
        if way in can.methods:
            return METHODS[way]
    offers = (
        f"offers {sorted(can.methods) or 'no evidence'} for this release and intruder: ask for "
        "evidence that is there, give another intruder, or synthesise other columns"
    )
    if asked is None:
        raise InputError(f"{name} {offers}")
    raise InputError("evidence", asked, f"is not offered by {name}; it {offers}")
