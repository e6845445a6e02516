"""What an audit will cost: memory by arithmetic, and the ceiling that it is kept beneath."""

from bayes_risk.costs.ceiling import beneath, bytes_of, in_words
from bayes_risk.costs.memory import Sizes, memory_by_stage

__all__ = ["Sizes", "beneath", "bytes_of", "in_words", "memory_by_stage"]
