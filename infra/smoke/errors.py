"""How a smoke fails: one sentence for whoever reads the last line."""

from __future__ import annotations


class SmokeFailed(Exception):
    """Something is not as it should be."""
