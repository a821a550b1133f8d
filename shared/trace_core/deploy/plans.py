"""Plans on the running state: what an edit would do, for whoever may deploy it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag
from trace_core.dag.places import Places
from trace_core.dag.problems import DagInvalid
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.deploy.plan import make_plan
from trace_core.deploy.plan_facts import (
    ActiveJob,
    BuiltJob,
    OutputFacts,
    PlanFacts,
    Reader,
    ReaderKind,
)
from trace_core.deploy.plan_model import Plan
from trace_core.deploy.service import NEW_DAG, state_token
from trace_core.identity.model import Actor
from trace_core.kernel.ids import OrgId

SQL = Statements("trace_core.deploy", "plan_facts.sql")


class Plans:
    def __init__(self, state: StateDatabase, catalog: Catalog) -> None:
        self._state = state
        self._catalog = catalog

    def plan(self, org_id: OrgId, text: str, filename: str, actor: Actor) -> Plan:
        """Nothing is changed; the plan names the state that it was made on."""
        new = load_dag(text, filename=filename, catalog=self._catalog)
        places = Places.of(text, filename)
        with self._state.transaction("plan") as tx:
            row = tx.one(SQL["active_version"], {"org_id": org_id, "name": new.name})
            if row is None or row.number is None:
                facts = PlanFacts(state_token=NEW_DAG)
                return make_plan(None, new, self._catalog, facts, places=places)
            actor.require_deploy_right(new.name, row.created_by, row.deploy_roles)
            facts = load_facts(tx, row)
        old = self._read_again(row)
        return make_plan(old, new, self._catalog, facts, places=places)

    def _read_again(self, row: Row) -> Dag | None:
        """The active file; nothing when it names what is no longer installed."""
        try:
            return load_dag(row.source, filename="active", catalog=self._catalog)
        except DagInvalid:
            return None


def load_facts(tx: Transaction, row: Row) -> PlanFacts:
    params: dict[str, Any] = {"dag_id": row.dag_id}
    durations: dict[str, list[float]] = defaultdict(list)
    for each in tx.all(SQL["durations_of_dag"], params):
        durations[each.job].append(each.seconds)
    readers: dict[str, list[Reader]] = defaultdict(list)
    for each in tx.all(SQL["readers_of_dag"], params):
        readers[each.dataset_name].append(Reader(ReaderKind.JOB, each.job, each.dag))
    return PlanFacts(
        state_token=state_token(tx, params),
        version=row.number,
        digest=row.content_sha256,
        active={
            each.name: ActiveJob(each.fingerprint, each.code_version)
            for each in tx.all(SQL["active_jobs"], params)
        },
        built={
            (each.name, each.fingerprint): BuiltJob(each.version, each.missed)
            for each in tx.all(SQL["built_jobs"], params)
        },
        outputs={
            (each.job, each.output_index): OutputFacts(each.partitions, each.rows, each.bytes)
            for each in tx.all(SQL["outputs_of_dag"], params)
        },
        durations={job: tuple(found) for job, found in durations.items()},
        input_scopes={each.job: each.scopes for each in tx.all(SQL["root_scopes"], params)},
        readers={name: tuple(found) for name, found in readers.items()},
    )
