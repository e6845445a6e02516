"""What may leave: file-level numbers as ranges, without records, labels or largest values."""
