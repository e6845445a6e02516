"""How a model that the user wrote in PyMC is fitted, synthesised from and audited."""
