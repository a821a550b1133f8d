"""One synth for the whole session, of all environments, without credentials or lookups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.synth import assemble
from tests.infra.templates import Templates
from trace_core.adapters.lite.atomic_files import exclusive_lock


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all templates; test processes that run side by side share it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "assembly"
    with exclusive_lock(folder.with_suffix(".lock")):
        if not (folder / "done").exists():
            # Almost empty: whatever else a synth looked for, it does not find.
            environ = {name: os.environ[name] for name in ("PATH", "UV") if name in os.environ}
            assemble(folder, bundling=False, environ={**environ, "HOME": str(own)})
            (folder / "done").touch()
    return folder


@pytest.fixture(scope="session")
def templates(assembly: Path) -> Templates:
    return Templates(assembly)
