"""Utility of releases, the context measures that users know, and the ends of the risk scale."""
