"""Identification risk: matching of targets against what was released."""
