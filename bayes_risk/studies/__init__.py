"""Many audits: sensitivity, comparison, re-weighting."""
