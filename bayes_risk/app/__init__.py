"""The edge: study file, run, output folder, command line."""
