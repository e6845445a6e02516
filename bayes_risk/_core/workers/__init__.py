"""Workers: jobs of a stage done in threads, processes or on a cluster, and given in order.

Every parallel place goes through `in_order`, so that what is promised of workers holds everywhere:
results do not depend on them, one that dies is made up for, and one that is stuck is reported.
"""

from .backend import BACKENDS, check_backend, working
from .order import RETRIES, Ticks, in_order
from .watch import Waiting, telling

__all__ = [
    "BACKENDS",
    "RETRIES",
    "Ticks",
    "Waiting",
    "check_backend",
    "in_order",
    "telling",
    "working",
]
