"""Arrays in, arrays out: NumPy, SciPy and numba only, nothing else of ours."""

__version__ = "0.1.0"
