"""Sequential regressions: families, conjugate and sampled posteriors, evidence."""
