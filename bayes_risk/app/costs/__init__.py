"""What a run will cost: memory by arithmetic, the ceiling that it is kept beneath, and a watch."""

from bayes_risk._core.ceiling import beneath, bytes_of, in_words
from bayes_risk._core.watch import watched

from .further import Further
from .memory import Sizes, memory_by_stage
from .samplers import Sampler

__all__ = [
    "Further",
    "Sampler",
    "Sizes",
    "beneath",
    "bytes_of",
    "in_words",
    "memory_by_stage",
    "watched",
]
