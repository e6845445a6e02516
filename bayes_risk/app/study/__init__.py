"""Study files: their sections, and what the library is told by them."""
