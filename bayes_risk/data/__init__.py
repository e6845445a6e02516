"""The confidential table: columns, structural zeros, weights, and the files it is read from."""
