"""Within your thresholds, above your thresholds, or inconclusive, and why."""
