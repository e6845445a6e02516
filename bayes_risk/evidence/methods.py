"""The methods that give the evidence, and which one an audit takes.

A fit offers or refuses them (`Capabilities`); a `AuditQuestion` says which of them can answer it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

from .contract import Targets, model_name, without_weights
from .evidence import Evidence
from .problem import AuditProblem
from .runner import Budget, EvidenceRunner


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceMethod:
    """A method that gives the evidence."""

    name: str  # As `attribute_risk` names it
    how: str  # In words
    cure: str  # What to do about records that it leaves unreliable
    # evidence of cases by a runner, within a budget; None: only the model can compute it
    sample: Callable[[EvidenceRunner, Targets, Budget], Evidence] | None = None
    min_ess: float = 0.0  # Effective draws below which a record is unreliable
    usual: bool = True  # Whether it is taken where none is named
    by_release: bool = True  # Whether its evidence comes release by release
    balanced: bool = False  # Whether the expectation of its evidence is known (`balance`)
    based: bool = False  # Whether draws of a base fit give predictives, unless the model computes
    calls: str = ""  # What it calls of a fit, where that has another name

    @property
    def in_words(self) -> str:
        """For reports: name and way."""
        return f"{self.name}: {self.how}"

    @property
    def offer(self) -> str:
        """The name of what it calls of a fit."""
        return self.calls or self.name

    def described(self, problem: AuditProblem) -> str:
        """For reports: as the model describes it for this problem, or in words of its own."""
        words = "" if self.calls else problem.capabilities[self.name].in_words
        if callable(words):
            words = words(problem.release, problem.cases)
        return words or self.in_words

    def has_base(self, problem: AuditProblem) -> bool:
        """Whether draws of a base fit give predictives."""
        return self.based and problem.capabilities[self.offer].compute is None

    def run(self, runner: EvidenceRunner, cases: Targets, budget: Budget) -> Evidence:
        """Evidence of every case."""
        compute = runner.offer.compute
        if compute is not None:
            return runner.computed(compute, cases, budget, kept=self.sample is None)
        assert self.sample is not None
        return self.sample(runner, cases, budget)


_MORE = "give a larger refit_budget, a target_mcse, or a fit with more draws"
_LONGER = "give a target_mcse or a fit with more draws"
METHODS = {
    method.name: method
    for method in (
        EvidenceMethod("exact", "in closed form", "look at the worst records", balanced=True),
        EvidenceMethod(
            "predictive",
            "leave-one-out predictives before and after seeing the release",
            _MORE,
            EvidenceRunner.predictive,
            balanced=True,
            based=True,
        ),
        EvidenceMethod(
            "imputed",
            "predictives before and after seeing all releases, the records that are not known "
            "imputed in the sampler",
            _LONGER,
            EvidenceRunner.until_exact,
            by_release=False,
            based=True,
        ),
        EvidenceMethod(
            "independent-releases",
            "predictives before and after seeing each release, multiplied as if the releases did "
            "not share the records that are not known (an approximation)",
            _MORE,
            EvidenceRunner.predictive,
            based=True,
        ),
        EvidenceMethod(
            "monte-carlo",
            "in closed form but for the bootstrap within leaves, which is integrated by simulation",
            "look at the worst records: the leaves they stand in show many values",
            min_ess=10.0,
            by_release=False,
        ),
        EvidenceMethod(
            "refit",
            "models fitted anew, without the target or for each of its guesses",
            _LONGER,
            EvidenceRunner.refit,
            balanced=True,
            based=True,
        ),
        EvidenceMethod(
            "importance",
            "the published importance sampler over draws given the confidential table",
            'use `evidence="predictive"`',
            EvidenceRunner.importance,
            min_ess=100.0,
            usual=False,
        ),
        EvidenceMethod(
            "simulated",
            "learnt from runs of the generator on tables in which some records have other values: "
            "a lower bound",
            "give a target_mcse, or more runs",
            by_release=False,
        ),
        EvidenceMethod(
            "parts",
            "log evidence of the parts of a chain, each by a method of its own, added",
            _LONGER,
            min_ess=10.0,
            by_release=False,
        ),
        EvidenceMethod(
            "weaker",
            "records that are not known integrated out by the model",
            "give a fit with more draws, or more classes where all are occupied",
            min_ess=10.0,
            by_release=False,
        ),
        EvidenceMethod(
            "joined",
            "log evidence of several releases, added",
            "gather each release's evidence with a target_mcse",
            by_release=False,
        ),
        EvidenceMethod(
            "published",
            "the exact probability of published counts, of which a guess moves two",
            "give a finer table",
            by_release=False,
        ),
        EvidenceMethod(
            "in-file",
            "leave-one-out predictives of whole records before and after seeing the release; the "
            "record in the target's place may be another person's",
            _MORE,
            EvidenceRunner.predictive,
            by_release=False,
            based=True,
            calls="predictive",
        ),
        EvidenceMethod(
            "household",
            "predictives of the whole household before and after seeing the release, by draws of "
            "the parameters; its other members summed out",
            "give a fit with more draws, or a larger refit_budget (NestedDPMPM)",
            EvidenceRunner.predictive,
            by_release=False,
            based=True,
            calls="predictive",
        ),
        EvidenceMethod(
            "household-exact",
            "of the whole household in closed form; its other members summed out",
            "look at the worst records",
            EvidenceRunner.exact_households,
            by_release=False,
            based=True,
            calls="household",
        ),
    )
}
RENAMED = {"product": "independent-releases", "reuse": "importance"}
COMPETITORS = ("weaker",)  # their evidence, which is not chosen by name
JOINED = "joined"  # of evidence that is there, by `bayes_risk.risk.join`
IN_FILE = ("in-file",)  # of an intruder who is not certain that the target is in the file: neither
HOUSEHOLD = ("household", "household-exact")  # of one who knows no member of the target's household
TABLES = ("published",)  # of published tables, which no fit offers
NAMES = tuple(
    name for name in METHODS if name not in (*COMPETITORS, *IN_FILE, *HOUSEHOLD, *TABLES, JOINED)
)
LACKING = (
    "offers no predictives for this release and intruder; {} needs them: use models.DPMPM, "
    "Regression, PoissonMixture (MP) or PyMCModel"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditQuestion:
    """What an audit asks: which methods can answer it, and which problems it refuses."""

    methods: Sequence[str]  # The first that the fit offers is taken
    takes: Sequence[str] = ()  # What else the fit must offer
    lacking: str = ""  # Why not, where a fit offers none of these: what follows its name
    households: bool = False  # Whether the household may be what is not known
    # Why a problem has no answer; or nothing
    refusal: Callable[[AuditProblem], str] = lambda problem: ""


ATTRIBUTES = AuditQuestion(
    methods=tuple(name for name in NAMES if METHODS[name].usual), households=True
)


def choose_method(
    problem: AuditProblem, evidence: str | None = None, question: AuditQuestion = ATTRIBUTES
) -> EvidenceMethod:
    """The method that is named, if it is offered; else the first that answers the question."""
    can, name = problem.capabilities, model_name(problem.fit)
    if why := next(_refusals(problem, evidence, question), ()):
        raise InputError(*why)
    methods: Sequence[str] = question.methods
    if problem.intruder.is_competitor:
        methods = COMPETITORS
    elif problem.in_file is not None:
        methods = IN_FILE
    elif problem.households is not None:
        methods = HOUSEHOLD if question is ATTRIBUTES else HOUSEHOLD[:1]
    elif evidence is not None:
        methods = [one_of("evidence", evidence, NAMES)]
    offered = [method for method in methods if METHODS[method].offer in can]
    if methods is IN_FILE and not offered:
        raise InputError(f"{name} {LACKING.format('in_file')}")
    if question.lacking and not (offered and all(what in can for what in question.takes)):
        raise InputError(f"{name} {question.lacking}")
    if offered:
        return METHODS[offered[0]]
    offers = (
        f"offers {sorted(can.methods) or 'no evidence'} for this release and intruder: name "
        "evidence that is offered, give another intruder, or synthesise other columns"
    )
    if evidence is None:
        raise InputError(f"{name} {offers}")
    raise InputError("evidence", evidence, f"is not offered by {name}; it {offers}")


def shows_members(problem: AuditProblem, question: str, cure: str) -> str:
    """Why who is in the file is no question for a problem; or nothing."""
    release = problem.release
    of = "" if problem.households is None else problem.households.model.id
    kept = [c for c in problem.fit.microdata.columns if c not in (*release.synthesized, of)]
    unchanged = int((~release.replaced).sum())
    if kept or unchanged:
        what = f"columns {kept} are released as they are"
        return (
            f"{what if kept else f'{unchanged} records are released unchanged'}, and show by "
            f"themselves who may be in the data; {question} is for releases with every column of "
            f"every record synthesised: {cure}"
        )
    if problem.fit.weights is not None:
        return f"{question} is not offered for a fit with record weights; fit without, or {cure}"
    if problem.intruder.knows_less and release.m > 1:
        return (
            f"knows_records with m = {release.m} data sets is not offered for {question}; give "
            '"all-but-target", or a release of one data set'
        )
    return ""


def _refusals(
    problem: AuditProblem, evidence: str | None, question: AuditQuestion
) -> Iterator[tuple[Any, ...]]:
    """Why there is no method, or not that which is named, as `InputError` takes it; the first."""
    fit, can, intruder = problem.fit, problem.capabilities, problem.intruder
    name, others = model_name(fit), 'give `knows_records="all-but-target"`'
    if own := question.refusal(problem):
        yield (own,)
    if problem.in_file is not None:
        if question is not ATTRIBUTES:
            yield "in_file", "is for attribute risk alone; leave it out of this intruder"
        if evidence not in (None, "predictive"):
            yield "evidence", evidence, "is not offered with `in_file`; leave it out"
        if why := shows_members(problem, "in_file", "leave it out"):
            yield (why,)
    if problem.households is not None:
        if not question.households:
            yield "household", "is for attribute risk and membership; leave it out of this intruder"
        if evidence not in (None, "predictive"):
            yield "evidence", evidence, "is not offered with `household`; leave it out"
    if intruder.is_competitor:
        knows = f"`knows_records={intruder.knows_records!r}`"
        if not any(offer.name in COMPETITORS for offer in can.offers):
            yield (f"{knows} is not offered by {name}; it is by PoissonMixture; {others}",)
        if evidence is not None:
            yield (
                "evidence",
                evidence,
                f"is for an intruder who knows every other record; with {knows} leave it out: the "
                "model computes it",
            )
    elif evidence in RENAMED:
        yield "evidence", evidence, f"is now called {RENAMED[evidence]!r}; give that"
    elif intruder.knows_less and fit.weights is not None:
        yield (without_weights(intruder),)
    refused = {offer.name: offer.refusal for offer in can.of_evidence if offer.refusal}
    if refused and not can.methods:  # the model's own refusal
        yield (next(iter(refused.values())),)
    if not (problem.release.corresponds or can.any_rows):
        yield (
            f"the rows of the release are not the original's records, and {name} "
            "has no evidence for that and this intruder; it is offered by mixtures "
            "and Marginals, and by PyMCModel, Regression and CART for "
            '`knows_records="all-but-target"`',
        )
    if intruder.knows_less and not intruder.is_competitor and "knowing" not in can:
        yield (f"{intruder.in_words()[:-1]}: {name} offers no evidence for that; {others}",)
    if evidence in refused:
        yield (refused[evidence],)
