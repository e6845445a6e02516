"""The intruder's posterior over every value that a record could have."""
