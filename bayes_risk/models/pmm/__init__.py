"""Predictive mean matching: mechanism and evidence."""
