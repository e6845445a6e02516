"""Membership: whether a record is in the confidential data, and who can tell."""
