"""The operator catalog for the two programs of this room that print documents."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from trace_core.dag.catalog import Catalog


def named_catalog(modules: Sequence[str]) -> Catalog:
    # Looked up by name when a program starts: the room itself does not know the operators.
    catalog = importlib.import_module("trace_core.operators.catalog").load_catalog(modules)
    if not isinstance(catalog, Catalog):
        raise TypeError("load_catalog must give a Catalog")
    return catalog
