"""Z: the synthetic tables, what was synthesised and how; releases made elsewhere."""
