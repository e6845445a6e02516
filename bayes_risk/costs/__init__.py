"""What a run will cost: memory by arithmetic, the ceiling that it is kept beneath, and a watch."""

from bayes_risk.costs.ceiling import beneath, bytes_of, in_words
from bayes_risk.costs.further import Further
from bayes_risk.costs.memory import Sizes, memory_by_stage
from bayes_risk.costs.samplers import Sampler
from bayes_risk.costs.watch import watched

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
