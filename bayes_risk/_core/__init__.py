"""Arrays in, arrays out: NumPy, SciPy and numba only, nothing else of ours."""
