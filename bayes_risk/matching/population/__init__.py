"""The population that a sample is from: how many people carry a key."""
