"""The services of datasets, wired from their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_core.bootstrap.identity import IdentityServices
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.registry.datasets import Datasets
from trace_core.registry.head import Heads
from trace_core.registry.lineage_views import LineageViews
from trace_core.registry.purge import Purges
from trace_core.registry.snapshots import Snapshots
from trace_core.registry.verification import Verifications

if TYPE_CHECKING:
    from trace_core.storage.reader import PinnedReader


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
    def heads(self) -> Heads:
        return self._part("heads", self._build_heads)

    def _build_heads(self) -> Heads:
        rights = self.read_rights
        return Heads(self.state, self.clock, self.ids, rights, lambda: self.pinned_reader)

    @property
    def pinned_reader(self) -> PinnedReader:
        return self._part("pinned_reader", self._build_pinned_reader)

    def _build_pinned_reader(self) -> PinnedReader:
        # Arrow takes a while to load, and few requests read rows.
        from trace_core.storage.reader import PinnedReader

        return PinnedReader(self.objects, self.data_reader)

    @property
    def verifications(self) -> Verifications:
        return self._part("verifications", self._build_verifications)

    def _build_verifications(self) -> Verifications:
        return Verifications(self.state, self.read_rights, self.objects)

    @property
    def lineage_views(self) -> LineageViews:
        return self._part("lineage_views", lambda: LineageViews(self.state, self.read_rights))

    @property
    def purges(self) -> Purges:
        return self._part("purges", self._build_purges)

    def _build_purges(self) -> Purges:
        return Purges(self.state, self.clock, self.ids, self.objects, self._drop_table)

    def _drop_table(self, dataset: DatasetUuid, version: DatasetVersion) -> None:
        from trace_core.storage.versions import VersionTables

        VersionTables(self.data).delete_version(dataset, version)
