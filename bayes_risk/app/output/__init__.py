"""Results on disk: the folder, its tables, numbers and arrays, and how to do a run again."""
