"""CART and forests: trees, leaves, kernels at leaves, and their evidence."""
