"""Realised privacy loss."""
