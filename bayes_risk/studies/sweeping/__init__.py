"""Sensitivity of attribute risk to what the intruder knows, believes, and is told of the model."""
