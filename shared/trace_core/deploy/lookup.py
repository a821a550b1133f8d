"""A DAG by its name, inside the caller's org."""

from __future__ import annotations

from trace_core.database.state import Row, Transaction
from trace_core.deploy.statements import SQL
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId


def locked_dag(tx: Transaction, org_id: OrgId, dag: str) -> Row:
    """With its creator and deploy roles, locked until the transaction ends; raises `NotFound`."""
    row = tx.one(SQL["dag_by_name"], {"org_id": org_id, "name": dag})
    if row is None:
        raise NotFound(f"No DAG {dag}.", dag=dag)
    return row
