"""A user's PyMC model: sampling, densities and evidence."""
