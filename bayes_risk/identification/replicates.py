"""What the confidential values may have been, to an intruder who knows the synthesis model."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least
from bayes_risk.release import Release


def replicates(
    release: Release,
    model: Any,
    *,
    n_tables: int = 20,
    random_seed: int | np.random.Generator | None = None,
    **fit_options: Any,
) -> Release:
    """Draw the synthesised values anew from their posterior given the release (Y_rep).

    An intruder who knows nothing of the synthesis takes the m releases themselves for draws of the
    confidential values. One who knows the model draws more (Reiter & Mitra 2009; Drechsler & Reiter
    2008, eq. 5): he fits it to each released file, and draws the synthesised values given the
    others. Hand the result to `identification_risk` in the place of the release.

    Parameters
    ----------
    release : Release
        All columns of the model in each file.
    model : declaration or Fit
        The model that made it, which he fits to each released file (S: the model is known); or the
        fit itself: he knows all parameters as well as the agency does (S: everything is known), and
        draws from that.
    n_tables : int
        Number of drawn tables in all, at least m; spread evenly over the releases.
    random_seed : int, Generator or None
    **fit_options
        Arguments of ``model.fit``, such as ``columns``, ``draws`` and ``tune`` of the sampler.

    Returns
    -------
    Release
        Of ``n_tables`` tables (at most m - 1 more).

    Raises
    ------
    InputError
        Fewer tables than releases; options for a model that is fitted already; a model whose
        releases replace other columns or records.

    Notes
    -----
    Records that were not replaced keep their values (`Release.records` is known to this intruder).
    Costs m fits. A synthetic record is taken to tell of its own confidential values through the
    parameters only, which holds for fresh classes, regressions and leaves of trees, and not for
    ``classes="own"``; those are refused.

    Examples
    --------
    >>> import bayes_risk as br
    >>> original = pd.DataFrame({"x": [1.0, 2, 3, 4, 5, 6], "y": [2.0, 4, 5, 8, 9, 13]})
    >>> model = br.models.CART(order=["y"], min_leaf=3)
    >>> release = model.fit(original, random_seed=1).synthesize(m=2, random_seed=2)
    >>> replicates(release, model, n_tables=6, random_seed=3).m
    6
    """
    n_tables = at_least("n_tables", n_tables, release.m)
    if release.classes == "own":
        raise InputError(
            'the release has classes="own": synthetic records then tell of their own confidential '
            "values directly, which drawing anew leaves out; use the releases themselves"
        )
    rng = np.random.default_rng(random_seed)
    if hasattr(model, "synthesize"):
        if fit_options:
            raise InputError(
                f"{sorted(fit_options)} are for fitting, and the model is fitted already; leave "
                "them out"
            )
        return _drawn(model, release, n_tables, rng)
    each = -(-n_tables // release.m)
    tables: list[pd.DataFrame] = []
    for table, child in zip(release.datasets, rng.spawn(release.m), strict=True):
        fit = model.fit(table, random_seed=child, **fit_options)
        tables += _drawn(fit, release, each, child).datasets
    return replace(release, datasets=tables, draw_index=None)


def _drawn(fit: Any, release: Release, m: int, rng: np.random.Generator) -> Release:
    """m tables with the columns and records of the release replaced."""
    options: dict[str, Any] = {"columns": list(release.synthesized)}
    if release.records is not None:
        options["records"] = release.records
    made: Release = fit.synthesize(m, random_seed=rng, **options)
    if set(made.synthesized) != set(release.synthesized):
        raise InputError(
            f"the model replaces {list(made.synthesized)} and the release "
            f"{list(release.synthesized)}; give the model that made the release"
        )
    return made
