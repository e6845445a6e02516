"""Candidate releases compared by risk and utility: the risk-utility map."""
