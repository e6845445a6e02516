"""Memory of an audit, counted from its sizes: every large array by its shape.

Stages hold different arrays, so the peak is that of the stage that holds most. With ``GU`` the
number of (guess, distinct case) pairs, ``F`` fits and ``B`` batches of draws, what counts in large
files is the evidence, ``(8 m + 4 F B) GU`` bytes, and the guesses, ``4 q GU``; all the rest is
smaller, or grows with the records alone. The derivation stands in ``docs/large-files.md``.
"""

from dataclasses import dataclass

from bayes_risk.costs.ceiling import block_bytes

DOUBLE, SINGLE, SHORT = 8, 4, 2
COMPILED = 250 * 2**20  # compiled kernels, samplers and plots, once they are loaded
KERNELS = ("DPMPM", "PoissonMixture")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the memory of an audit depends on.

    Attributes
    ----------
    kind : str
        The model.
    records, columns, guessed : int
        n, p, and the number q of guessed columns.
    table : int
        Bytes of the confidential table as it was read.
    program : int
        Bytes of the process before the audit.
    cases, guesses : int
        Distinct cases U among the targets, and guesses G of each; 0: no attribute audit.
    releases : int
        m.
    draws, chains, levels, classes : int
        H (0: nothing is sampled), C, the levels of all columns together, and K.
    sampled : bool
        Whether the evidence comes from fits of their own for every release.
    confidential : bool
        Whether the guesses are written into the report.
    """

    kind: str
    records: int
    columns: int
    guessed: int
    table: int
    program: int
    cases: int
    guesses: int
    releases: int
    draws: int
    chains: int
    levels: int
    classes: int
    sampled: bool
    confidential: bool = False

    @property
    def pairs(self) -> int:
        """(guess, case) pairs."""
        return self.cases * self.guesses

    @property
    def fits(self) -> int:
        """Fits F that the evidence comes from."""
        return self.releases + 1 if self.sampled else 1

    @property
    def batches(self) -> int:
        """Batches B of draws."""
        return 2 * self.chains if self.sampled else 2


Parts = dict[str, int]


def memory_by_stage(sizes: Sizes, *, block: int, workers: int) -> dict[str, Parts]:
    """Bytes of each part at each stage.

    Parameters
    ----------
    sizes : Sizes
    block : int
        Distinct cases worked on at once by a worker.
    workers : int

    Returns
    -------
    dict of str to dict of str to int
        By stage (``"fit"``, ``"guesses"``, ``"evidence"``, ``"posterior"``, ``"report"``), then by
        part. The peak is the largest sum of a stage.
    """
    base = {"program": sizes.program + COMPILED, "table and releases": _tables(sizes)}
    stages: dict[str, Parts] = {"fit": base | {"draws of the fits": _draws(sizes, fits=1)}}
    if not sizes.pairs:
        return stages
    held = base | {"draws of the fits": _draws(sizes, fits=sizes.fits), "guesses": _guesses(sizes)}
    work = workers * block_bytes(block, sizes.draws, sizes.guesses, sizes.batches)
    evidence, once = _evidence(sizes), DOUBLE * sizes.pairs
    stages["guesses"] = held | {"distinct cases": _distinct(sizes)}
    stages["evidence"] = held | {
        "evidence": evidence + evidence // sizes.fits,  # the part that is moved is there twice
        "labels and tables of a fit": _tabulated(sizes),
        "guesses as the model reads them": _read_guesses(sizes),
        "blocks at work": work if sizes.sampled else 0,
    }
    stages["posterior"] = held | {"evidence": evidence, "prior and posterior": 9 * once}
    stages["report"] = held | {
        "evidence": evidence,
        "prior and posterior": 4 * once,
        "arrays for the report": _reported(sizes),
    }
    return stages


def _tables(s: Sizes) -> int:
    """The table, its codes, and each release as a table and in codes."""
    cells = s.records * s.columns
    return s.table + SINGLE * cells + s.releases * cells * (DOUBLE + SINGLE)


def _draws(s: Sizes, *, fits: int) -> int:
    """Draws of every fit, and the distinct records that its chains walk over."""
    units = SINGLE * (s.columns + 4) * s.records
    return fits * (DOUBLE * s.draws * s.classes * (s.levels + 2) + (2 * units if s.draws else 0))


def _guesses(s: Sizes) -> int:
    return s.pairs * (SINGLE * s.guessed + 1)


def _distinct(s: Sizes) -> int:
    """Sorting the targets: keys, a copy, and their order."""
    return s.records * (3 * SINGLE * (s.columns + 1) + 4 * DOUBLE)


def _evidence(s: Sizes) -> int:
    """log_evidence (m, G, U), deviations (F, B, G, U), and what the base fit says (G, U)."""
    doubles = s.releases + 1 if s.sampled else s.releases
    return s.pairs * (DOUBLE * doubles + SINGLE * s.fits * s.batches)


def _tabulated(s: Sizes) -> int:
    """Labels (H, U), level probabilities (H, D, K), class totals (H, p, K)."""
    if not s.sampled:
        return 0
    return s.draws * (SHORT * s.cases + DOUBLE * s.classes * (s.levels + s.columns))


def _read_guesses(s: Sizes) -> int:
    """Rows of level positions; of trees, the records with each guess put in, one tree at a time."""
    each = SINGLE * s.guessed if s.sampled else SINGLE * s.columns + 3 * DOUBLE
    return s.pairs * each


def _reported(s: Sizes) -> int:
    """What the NetCDF file holds, by record; a release's evidence is there twice while written."""
    pairs = s.guesses * s.records
    guesses = SINGLE * s.guessed if s.confidential else 0
    return pairs * (DOUBLE * (2 * s.releases + 3) + guesses)
