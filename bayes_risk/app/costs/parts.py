"""Bytes of numbers, and of what is there whatever the data."""

DOUBLE, SINGLE, SHORT = 8, 4, 2
COMPILED = 250 * 2**20  # compiled kernels, samplers and plots, once they are loaded
PROCESS = 150 * 2**20  # a process that has imported what it works with

Parts = dict[str, int]
