"""Releases that keep totals, and intruders who are business competitors."""
