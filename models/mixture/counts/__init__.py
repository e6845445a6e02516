"""Mixtures of Poisson counts: sampler, predictives and evidence."""
