"""The blocked Gibbs sweep of a mixture of any families and options: one loop for all.

Order of classes, sticks and concentration are those of `sweep.py`; what the families say stands in
`families.py`, the step for columns that a release keeps in `kept_columns.py`, that for structural
zeros in `zeros.py`, moves of whole classes in `split_merge.py`. Labels drawn anew for kept draws
give sums by class instead of parameters.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints

from .families import draw_labels, draw_parameters
from .kept_columns import part_masses, update_given
from .split_merge import draw_each_label, individuals, split_merge
from .state import Draws, Prior, Units, n_normalised, sampled
from .sweep import draw_alpha, draw_sticks, swap_neighbours
from .zeros import fall, fall_given


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sums_of(rng, units, given, zero, layout, N, pi, phi, sums, sums_z, label, flags):
    """Labels anew, then sums: of records, and of synthetic rows drawn given others (sums_z).

    With structural zeros the records that fell into them are among the sums. Returns how many fell
    beside the records, what divides each part with what fell there, and part_masses.
    """
    n, M = sums
    draw_labels(rng, units, pi, phi, layout, n, M, label, flags)
    fallen, c, g = 0, np.empty(0, np.int64), np.empty((0, 0))
    if zero is not None:
        fallen = fall(rng, N, zero, pi, phi, n, M)
    if given is not None:
        rows, parts, c, us, us_columns = given
        n_z, M_z = sums_z
        other = np.empty(rows[1].shape[0], np.int64)
        draw_labels(rng, rows, pi, phi, layout, n_z, M_z, other, flags[:0])
        g = part_masses(parts, phi, layout)
        if zero is not None:
            c = fall_given(rng, zero, us, us_columns, c, pi, phi, g, n_z, M_z)
    return fallen, c, g


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run(rng, units, given, zero, layout, prior, state, thin, swaps, out, first, last):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated.

    ``given``: synthetic rows, unsynthesised parts, how often each divides, their rows of levels and
    which columns those are; ``zero``: structural zeros; None of either: nothing is compiled for
    them. ``layout``: the families', how many rows are normalised, and how many splits or merges a
    sweep tries: none where rows are drawn given others, whose divisors the moves do not know, and
    none with boxes of structural zeros, whose records have classes but no labels.
    """
    families, N, splits = layout
    alpha, log_left, pi, phi = state
    K, extra = pi.shape[0], 2 * families[2].shape[0] + families[6].shape[0]
    n, M = sums = np.zeros(K), np.zeros((phi.shape[0] + extra, K))
    sums_z = np.zeros_like(n), np.zeros_like(M)
    label, flags = np.zeros(units[1].shape[0], np.int64), np.zeros((0, 0), np.bool_)
    if given is not None or zero is not None:
        splits = 0
    rows, z = individuals(units, families, splits > 0)
    classes, tally = (n, np.zeros(K, np.int64), M), np.zeros((2, 2), np.int64)
    for h in range(first, last):
        for _ in range(thin):
            if splits > 0:
                draw_each_label(rng, rows, pi, phi, families, classes, z)
                split_merge(rng, splits, rows, families, alpha[0], classes, z, tally)
            else:
                _, c, g = sums_of(
                    rng, units, given, zero, families, N, pi, phi, sums, sums_z, label, flags
                )
                if given is not None:
                    if c.shape[0] > 0:
                        alpha[0] = update_given(
                            rng, (given[1], c, given[3], given[4]), families, prior,
                            alpha[0], log_left, pi, phi, sums, sums_z, g,
                        )  # fmt: skip
                        continue
            if swaps:
                swap_neighbours(rng, alpha[0], n, M)
            log_rest = draw_sticks(rng, n, alpha[0], log_left, pi)
            draw_parameters(rng, M, families, phi)
            alpha[0] = draw_alpha(rng, K - 1, log_rest, prior)
        out_alpha, out_left, out_pi, out_phi, out_occupied = out
        out_alpha[h], out_left[h], out_pi[h], out_phi[h] = alpha[0], log_left, pi, phi
        out_occupied[h] = (n > 0).sum()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def collapse_draws(rng, units, given, zero, layout, theta, wanted, out):
    """Labels anew for each draw; fills n, M, label and structural zeros of wanted units.

    ``wanted`` lists units; synthetic rows that were drawn given others, and records that fell into
    structural zeros, are among the sums, but for weights. ``out[4]``: how many records fell.
    """
    families, N = layout
    all_pi, all_phi = theta
    all_n, all_M, all_label, all_flags, fallen = out
    U, sums_z = units[1].shape[0], (np.zeros(all_pi.shape[1]), np.zeros(all_M.shape[1:]))
    label, flags = np.zeros(U, np.int64), np.zeros((U, all_flags.shape[2]), np.bool_)
    for h in range(all_pi.shape[0]):
        fallen[h] = sums_of(
            rng, units, given, zero, families, N, all_pi[h], all_phi[h], (all_n[h], all_M[h]),
            sums_z, label, flags,
        )[0]  # fmt: skip
        if given is not None:
            all_M[h] += sums_z[1]
        for i in range(wanted.shape[0]):
            all_label[h, i] = label[wanted[i]]
            all_flags[h, i] = flags[wanted[i]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """What the predictives need of each draw.

    ``n (H, K)`` weights of classes; ``M (H, D + 2 p + r, K)`` sums, as in `families.py`; ``fixed
    (V,)`` variables kept at their drawn parameters; whether the weights of classes are
    ``integrated`` out; ``fallen (H,)`` how many records fell into the structural zeros.
    """

    draws: Draws
    n: Array
    M: Array
    fixed: Flags
    integrated: bool
    fallen: Ints

    @classmethod
    def at_theta(cls, draws: Draws, prior: Prior) -> "Sums":
        """Nothing integrated out."""
        H, K = draws.pi.shape
        return cls(
            draws=draws,
            n=np.zeros((H, K)),
            M=np.zeros((H, prior.n_sums, K)),
            fixed=np.ones(prior.n_numbers + len(prior.starts) - 1, dtype=bool),
            integrated=False,
            fallen=np.zeros(H, np.int64),
        )


def collapse(
    prior: Prior,
    units: Units,
    draws: Draws,
    fixed: Flags,
    wanted: Ints,
    *,
    rng: np.random.Generator,
) -> tuple[Sums, npt.NDArray[np.int16], Flags]:
    """Labels anew for each draw, then sums by class instead of parameters.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Labels (H, U) and structural zeros (H, U, 2 p) are kept of
    the ``wanted`` units (U,) only; -1: of nobody, class K. Cost: one sweep a draw.
    """
    (H, K), p = draws.pi.shape, prior.n_counts
    kept, place = np.unique(wanted[wanted >= 0], return_inverse=True)
    n, M = np.empty((H, K)), np.empty((H, prior.n_sums, K))
    c = 0 if prior.inflation is None else units.counts.shape[1]
    label, flags = np.empty((H, len(kept)), np.int16), np.zeros((H, len(kept), c), np.bool_)
    fallen = np.zeros(H, np.int64)
    collapse_draws(
        rng,
        *sampled(units, prior),
        (prior.layout, n_normalised(units)),
        (draws.pi, draws.phi),
        kept,
        (n, M, label, flags, fallen),
    )
    labels = np.full((H, len(wanted)), K, np.int16)
    labels[:, wanted >= 0] = label[:, place]
    drawn = np.zeros((H, len(wanted), 2 * p), np.bool_)
    drawn[:, wanted >= 0, :c] = flags[:, place]
    sums = Sums(draws=draws, n=n, M=M, fixed=fixed, integrated=not fixed.any(), fallen=fallen)
    return sums, labels, drawn
