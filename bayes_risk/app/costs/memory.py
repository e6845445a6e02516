"""Memory of a run, counted from its sizes: every large array by its shape.

Stages hold different arrays, so the peak is that of the stage that holds most. With ``GU`` the
number of (guess, distinct case) pairs, ``F`` fits and ``B`` batches of draws, what counts in large
files is the evidence, ``(8 m + 4 F B) GU`` bytes, ``8 q GU`` of its factors where columns are drawn
one after another, and the guesses, ``4 q GU``; all the rest is smaller, or grows with the records
alone. The derivation stands in ``docs/large-files.md``.
"""

from dataclasses import dataclass

from bayes_risk._core.ceiling import block_bytes

from .further import Further, further_stages
from .parts import COMPILED, DOUBLE, PROCESS, SHORT, SINGLE, Parts
from .samplers import Sampler, code_of, draws_of, fitting, matched, released_in_forests

FACTORED = ("CART", "Forest", "PMM", "Regression")  # evidence has a factor for each column
TREE_PAIRS = 2**19  # guesses of targets that trees look at at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the memory of a run depends on.

    Attributes
    ----------
    sampler : Sampler
        The model: what a fit holds.
    records, columns, guessed : int
        n, p, and the number q of guessed columns.
    table : int
        Bytes of the confidential table as it was read.
    program : int
        Bytes of the process before the run.
    targets, cases, guesses : int
        Records audited, distinct cases U among them, and guesses G of each; 0: no attribute audit.
    releases : int
        m.
    levels : int
        Of all columns together.
    further : Further
        What other audits look at.
    confidential : bool
        Whether the guesses are written into the report.
    written : bool
        Whether arrays by record are written.
    priors, fit_sets : int
        Priors that the evidence is weighed with at once, and sets of fits that are held: of a sweep
        more than one.
    rounds : int
        Of reweighting, the first among them: the results of all are held. 0: none.
    """

    sampler: Sampler
    records: int
    columns: int
    guessed: int
    table: int
    program: int
    targets: int
    cases: int
    guesses: int
    releases: int
    levels: int
    further: Further
    confidential: bool = False
    written: bool = True
    priors: int = 1
    fit_sets: int = 1
    rounds: int = 0

    @property
    def pairs(self) -> int:
        """(guess, case) pairs."""
        return self.cases * self.guesses

    @property
    def sampled(self) -> bool:
        """Whether the evidence comes from fits of their own for every release."""
        return self.sampler.draws > 0

    @property
    def fits(self) -> int:
        """Fits F that the evidence comes from."""
        return self.releases + 1 if self.sampled else 1

    @property
    def batches(self) -> int:
        """Batches B of draws."""
        return 2 * self.sampler.chains if self.sampled else 2


def memory_by_stage(
    sizes: Sizes, *, block: int, workers: int, processes: bool = False
) -> dict[str, Parts]:
    """Bytes of each part at each stage.

    Parameters
    ----------
    sizes : Sizes
    block : int
        Distinct cases worked on at once by a worker.
    workers : int
    processes : bool
        Whether workers are processes, each with the program and a copy of what it works on.

    Returns
    -------
    dict of str to dict of str to int
        By stage (``"fit"``, ``"guesses"``, ``"evidence"``, ``"posterior"``, ``"report"``, and the
        other audits by their names), then by part. The peak is the largest sum of a stage.
    """
    s = sizes
    program = s.program + COMPILED + code_of(s.sampler)
    base = {"program": program, "table and releases": _tables(s)}
    if processes:
        own = _guesses(s) + _tabulated(s) + _tables(s)
        base["processes of workers"] = workers * (PROCESS + program - s.program + own)
    draws = {"draws of the fits": draws_of(s.sampler, s.records, s.columns)}
    held = base | draws
    made = {"a data set in the making": 4 * DOUBLE * s.records * s.columns}
    stages: dict[str, Parts] = {
        "fit": held | fitting(s.sampler, s.records, s.columns),
        "release": held | made,
    }
    if s.pairs:
        stages |= _attribute(s, base, block=block, workers=workers)
        held = held | {"attribute risk": _result(s)}
    return stages | further_stages(
        s.further,
        held,
        records=s.records,
        columns=s.columns,
        releases=s.releases,
        sampler=s.sampler,
        workers=workers,
    )


def _attribute(s: Sizes, base: Parts, *, block: int, workers: int) -> dict[str, Parts]:
    """The stages of an attribute audit."""
    fits = s.fit_sets * s.fits * draws_of(s.sampler, s.records, s.columns)
    held = base | {"draws of the fits": fits, "guesses": _guesses(s)}
    if s.rounds > 1:
        made = s.releases * s.records * s.columns * (DOUBLE + SINGLE)
        held["earlier rounds"] = (s.rounds - 1) * (_result(s) + made)
    work = workers * block_bytes(block, s.sampler.draws, s.guesses, s.batches)
    evidence, once = _evidence(s), DOUBLE * s.pairs
    stages = {
        "guesses": held | {"distinct cases": _distinct(s)},
        "evidence": held
        | {
            "evidence": evidence + evidence // s.fits,  # the part that is moved is there twice
            "labels and tables of a fit": _tabulated(s),
            "guesses as the model reads them": _read_guesses(s),
            "releases as forests see them": released_in_forests(s.sampler, s.records, s.releases),
            "rows and donors that are matched": matched(
                s.sampler, s.records, s.columns, s.releases * s.pairs
            ),
            "blocks at work": work if s.sampled else 0,
        },
        "posterior": held
        | {"evidence": evidence, "prior and posterior": (7 + 2 * s.priors) * once},
    }
    if s.written:
        stages["report"] = held | {
            "evidence": evidence,
            "prior and posterior": 4 * once,
            "arrays for the report": _reported(s),
        }
    return stages


def _tables(s: Sizes) -> int:
    """The table, its codes, and each release as a table and in codes."""
    cells = s.records * s.columns
    return s.table + SINGLE * cells + s.releases * cells * (DOUBLE + SINGLE)


def _guesses(s: Sizes) -> int:
    return s.pairs * (SINGLE * s.guessed + 1)


def _distinct(s: Sizes) -> int:
    """Sorting the targets: keys, a copy, and their order."""
    return s.targets * (3 * SINGLE * (s.columns + 1) + 4 * DOUBLE)


def _evidence(s: Sizes) -> int:
    """log_evidence (m, G, U), deviations (F, B, G, U), the base fit's (G, U), factors (q, G, U)."""
    doubles = s.releases + 1 if s.sampled else s.releases
    if s.sampler.kind in FACTORED and s.guessed > 1:
        doubles += s.guessed
    return s.pairs * (DOUBLE * doubles + SINGLE * s.fits * s.batches)


def _result(s: Sizes) -> int:
    """What an attribute audit leaves behind."""
    return _guesses(s) + s.pairs * DOUBLE * (s.releases + 3)


def _tabulated(s: Sizes) -> int:
    """Labels (H, U), level probabilities (H, D, K), class totals (H, p, K)."""
    one = s.sampler
    if not one.classes:
        return 0
    return one.draws * (SHORT * s.cases + DOUBLE * one.classes * (s.levels + s.columns))


def _read_guesses(s: Sizes) -> int:
    """Rows of level positions; of trees, records with guesses put in, and what a tree adds."""
    if s.sampled:
        return s.pairs * SINGLE * s.guessed
    at_once = min(s.pairs, TREE_PAIRS)
    return at_once * ((SINGLE + DOUBLE) * s.columns + 6 * DOUBLE) + 2 * DOUBLE * s.pairs


def _reported(s: Sizes) -> int:
    """What the NetCDF file holds, by record; a release's evidence is there twice while written."""
    pairs = s.guesses * s.targets
    guesses = SINGLE * s.guessed if s.confidential else 0
    return pairs * (DOUBLE * (2 * s.releases + 3) + guesses)
