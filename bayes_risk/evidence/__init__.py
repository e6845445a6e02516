"""p(Z | y*, A, S): the contract of models, the audit problem, and the methods of evidence."""
