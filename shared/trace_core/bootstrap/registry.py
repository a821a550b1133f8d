"""The services of datasets, wired from their parts."""

from __future__ import annotations

from uuid import UUID

from trace_core.bootstrap.identity import IdentityServices
from trace_core.registry.datasets import Datasets
from trace_core.registry.purge import Purges
from trace_core.registry.snapshots import Snapshots


class RegistryServices(IdentityServices):
    @property
    def datasets(self) -> Datasets:
        return self._part("datasets", lambda: Datasets(self.state, self.clock, self.read_rights))

    @property
    def snapshots(self) -> Snapshots:
        return self._part("snapshots", self._build_snapshots)

    def _build_snapshots(self) -> Snapshots:
        return Snapshots(self.state, self.clock, self.ids, self.read_rights)

    @property
    def purges(self) -> Purges:
        return self._part("purges", self._build_purges)

    def _build_purges(self) -> Purges:
        return Purges(self.state, self.clock, self.ids, self.objects, self._drop_table)

    def _drop_table(self, dataset: UUID, version: UUID) -> None:
        raise NotImplementedError
