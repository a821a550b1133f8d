"""Both databases, and a DAG whose datasets are tables: for tests of the views that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tests.dataset_layouts import Definition, PostgresLayout
from tests.factories import CATALOG, World
from tests.manual_clock import ManualClock
from tests.postgres.data_world import DataWorld
from trace_core.dag.model import Column
from trace_core.database.data import DataDatabase
from trace_core.database.state import StateDatabase
from trace_core.deploy.repoint import KIND, Repoints
from trace_core.deploy.service import Deploys
from trace_core.identity.model import SYSTEM
from trace_core.kernel.ids import DagId, DatasetUuid, DatasetVersion, Ids, OrgId
from trace_core.kernel.scopes import Scope
from trace_core.outbox.relay import Relay
from trace_core.storage.published_views import PublishedViews

COLUMNS = (Column("id", "bigint"), Column("label", "text"))
_JOB = "activation: reactive, runtime: worker, execution_strategy: PerUpdate"
_SCHEMA = "{columns: {id: bigint, label: text}}"
SHOP = f"""
version: 1
name: shop
jobs:
  - {{name: a, activation: source, runtime: worker, operator: work, source: {{kind: always_on}},
     outputs: 1, update_strategy: replace}}
  - {{name: b, {_JOB}, operator: work, inputs: [{{from: {{job: a, output: 0}}}}], outputs: 1,
     update_strategy: replace}}
  - {{name: c, {_JOB}, operator: work, inputs: [{{from: {{job: b, output: 0}}}}], outputs: 1,
     update_strategy: replace}}
publish:
  orders: {{from: {{job: b, output: 0}}, storage: postgres, schema: {_SCHEMA}}}
  lines: {{from: {{job: c, output: 0}}, storage: postgres, schema: {_SCHEMA}}}
"""
"""`lines` follows `orders`: a change of b makes both anew."""
EDITED = SHOP.replace(f"name: b, {_JOB}, operator: work", f"name: b, {_JOB}, operator: rework")
BOTH = "SELECT o.label, l.label FROM published.orders o JOIN published.lines l USING (id)"
LOOK = "SELECT dataset_name, view_name FROM trace.published_views ORDER BY 1, 2"


class PublishedWorld(World):
    def __init__(self, state: StateDatabase, data: DataWorld, clock: ManualClock, ids: Ids) -> None:
        super().__init__(state, clock, ids)
        self.data = data
        # Tables come with the first write, later than in life: a view must wait for its table.
        self.deploys = Deploys(state, clock, ids, self.waker, CATALOG, lambda *_table: None)
        self.repoints = self.another(data.data)
        self.sender = self.relay_with(self.repoints)

    def another(self, data: DataDatabase) -> Repoints:
        """As another process has it, with a memory of its own."""
        return Repoints(self.state, PublishedViews(data), self.clock, self.ids, self.waker)

    def relay_with(self, repoints: Repoints, **parts: Any) -> Relay:
        sends = {"worker": lambda _org, _rows: None}
        return Relay(self.outbox, self.clock, sends, kinds={KIND: repoints.send}, **parts)

    def publish(self, text: str = SHOP, org: OrgId | None = None) -> None:
        """Deploy, and let the build end: there is nothing to build from."""
        self.deploys.deploy(org or self.org, text, "shop.yaml", SYSTEM)
        for _ in range(6):
            self.builds.run_once()
        assert {row.status for row in self.rows("SELECT status FROM deploys")} == {"Done"}

    def roll_back(self) -> None:
        self.deploys.rollback(self.org, "shop", SYSTEM)
        self.builds.run_once()

    def write(
        self,
        job: str,
        label: str,
        *ids: int,
        org: OrgId | None = None,
        columns: Sequence[Column] = COLUMNS,
        register: bool = True,
    ) -> int:
        """One commit of all rows to the current version of a job; answers its number."""
        dataset, version = self.output(job, org=org)
        one = Definition(DatasetUuid(dataset), DatasetVersion(version), tuple(columns))
        self.data.tables.ensure_version(one.table)
        layout = PostgresLayout(one, self.data.output, None, self.ids)  # type: ignore[arg-type]
        rows = [{"id": n, "label": label, "more": None} for n in ids]
        number = layout.commit(Scope(), rows)
        if register:
            self.register(job, number, org=org)
        return number

    def register(self, job: str, number: int, org: OrgId | None = None) -> None:
        """The commits up to this one are known to the state database."""
        _, version = self.output(job, org=org)
        self.state.write(
            "test",
            "UPDATE version_counters SET readable = %(number)s WHERE dataset_version = %(version)s",
            {"number": number, "version": version},
        )

    def dag_id(self, org: OrgId | None = None) -> DagId:
        (row,) = self.rows("SELECT dag_id FROM dags WHERE org_id = %(org)s", org=org or self.org)
        return DagId(row.dag_id)

    def follow(self) -> None:
        """A pass of the Dispatcher's chore, and the relay."""
        self.repoints.chore()
        self.sender.run_once()

    def read(self, statement: str, role: str = "trace_data_reader") -> list[tuple[Any, ...]]:
        """As somebody with psql."""
        with psycopg.connect(self.data.dsn, autocommit=True) as connection:
            connection.execute(f"SET ROLE {role}")  # type: ignore[arg-type]
            return connection.execute(statement).fetchall()  # type: ignore[arg-type]

    def labels(self, view: str) -> list[str]:
        return [row[0] for row in self.read(f"SELECT DISTINCT label FROM published.{view}")]  # noqa: S608

    def view_names(self) -> list[str]:
        statement = "SELECT viewname FROM pg_views WHERE schemaname = 'published' ORDER BY 1"
        return [row[0] for row in self.read(statement)]

    def asked(self) -> list[Any]:
        return self.rows(
            "SELECT target, status, attempts, sweep_key FROM outbox WHERE kind = 'repoint'"
        )
