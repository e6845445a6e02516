"""Households: classes of households, and within each classes of their members."""
