"""Mixtures of categorical columns: the DPMPM and its evidence."""
