"""Runs one task of `runtime: lambda`; the event is the full task payload with its start token."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from trace_core import bootstrap
from trace_core.adapters.lite.system_clock import SystemClock
from trace_core.operators.catalog import load_catalog
from trace_core.settings import Settings
from trace_core.worker.client import HttpClient, TaskApi
from trace_core.worker.logs import SentLogs
from trace_core.worker.rows import rows_for_tasks
from trace_core.worker.runner import Runner
from trace_core.worker.supervision import InThisProcess, Supervisor

logger = Logger(service="operator_runner")


@cache  # once per cold start
def runner() -> Runner:
    settings = Settings.from_env()
    api = TaskApi(HttpClient(settings.task_address))
    catalog = load_catalog(settings.operator_modules)
    supervisor = Supervisor(
        InThisProcess(catalog, api),
        clock=SystemClock(),
        logs=SentLogs(api),
        rows=rows_for_tasks(api, lambda: bootstrap.app().row_store),
    )
    return Runner(api, supervisor, new_runner_id=lambda: f"lambda:{uuid4()}", patience=60.0)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    job = event["job"]
    logger.append_keys(
        org=event["org_id"],
        job=f"{job['dag_name']}.{job['name']}",
        task=event["task_id"],
        attempt=event["attempt"],
    )
    status = runner().run(event)
    logger.info("ended", extra={"status": status})
    return {"status": status}
