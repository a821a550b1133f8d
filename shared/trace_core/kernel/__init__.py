"""Ids, errors, limits, backoff: what every room may import. Standard library only."""
