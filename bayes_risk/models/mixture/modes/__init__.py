"""Modes of a mixture: chains that a release leads to the mode that made it."""
