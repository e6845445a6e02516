"""What can go wrong, and what statistical doubt looks like.

Three exceptions and three warnings are all there is. Each docstring tells the cure.
"""

from .shown import visible

MOST = 2_000


class InputError(ValueError):
    """Something given does not fit.

    The message names the column or argument, the value, and what would be right. Of a message of
    more than 2,000 characters (names of thousands of columns) the middle is left out.
    """

    def __init__(self, message: str = "") -> None:
        text = visible(str(message), "\n")
        long = len(text) > MOST
        super().__init__(f"{text[: MOST - 520]} ... {text[-500:]}" if long else text)


class ModelError(RuntimeError):
    """A model cannot do what was asked of it.

    Raised when a fit lacks a capability (``evidence="exact"`` on a model without closed form) or
    when a sampler failed. Choose another evidence, or fit the model again with other settings.
    """


class MemoryCeilingError(MemoryError):
    """A run has taken more memory than it was allowed.

    It stops between two steps; those that are finished are kept. Give the same command a larger
    ``max_memory``, and it goes on from there; or audit fewer targets, weigh fewer guesses.
    """


class UnreliableWeightsWarning(UserWarning):
    """Importance weights rest on too few draws, so the risk they give is not to be trusted.

    The Pareto k-hat of the weights exceeds ``min(1 - 1/log10(H), 0.7)`` (Vehtari et al. 2024), or
    their effective sample size is below 100 for the published estimator. Cure: use
    ``evidence="predictive"`` instead of ``"importance"``; more draws; or a larger
    ``refit_budget`` so that the records concerned are fitted again without the target.
    """


class DisplacedRiskWarning(UserWarning):
    """Weighing records at risk down has exposed records of moderate risk ("whack-a-mole").

    Clearly more of them rose than chance explains, or some above the threshold. Cure: more rounds
    of `reweight`, whose weights then follow the records that rose; a lower threshold; or fewer
    columns in the release.
    """


class TruncationWarning(UserWarning):
    """Every latent class is occupied, so the truncation of the mixture binds.

    Cure: fit again with more classes (``n_classes``).
    """
