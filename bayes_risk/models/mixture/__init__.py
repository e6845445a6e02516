"""Truncated Dirichlet-process mixtures of products of conjugate families."""
