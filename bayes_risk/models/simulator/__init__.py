"""Any synthesiser: evidence learnt from runs of the generator itself."""
