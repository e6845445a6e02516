"""Attribute risk and what follows from it: closeness, the full table, membership, privacy loss."""
