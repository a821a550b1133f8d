"""What an operator itself has to say about a job: its inputs, and the jobs behind them."""

from __future__ import annotations

from trace_core.dag.catalog import Catalog, JobFacts, Upstream
from trace_core.dag.config_rules import fits_model
from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.job_rules import input_alias
from trace_core.dag.references import Jobs


def check_operators(dag: Record, jobs: Jobs, catalog: Catalog, found: Findings) -> None:
    for _, job in dag.records("jobs"):
        name = job.get("operator")
        spec = catalog.get(name) if isinstance(name, str) else None
        if spec is None or spec.check is None or not fits_model(job, spec):
            continue
        for each in spec.check(_facts(job, jobs)):
            path = (*job.path, "config", *each.path)
            found.value(path, "bad_config", each.reason, each.suggestion)


def _facts(job: Record, jobs: Jobs) -> JobFacts:
    inputs: dict[str, Upstream | None] = {}
    triggers: list[str] = []
    for _, each in job.records("inputs"):
        alias = input_alias(each)
        if alias is None:
            continue
        inputs.setdefault(alias, _upstream(each.get("from"), jobs))
        if each.get("trigger") is True:
            triggers.append(alias)
    # Without any `trigger: true` it is the first input.
    triggers = triggers or list(inputs)[:1]
    config = job.get("config") or {}
    return JobFacts(config, inputs, triggers[0] if len(triggers) == 1 else None)


def _upstream(origin: object, jobs: Jobs) -> Upstream | None:
    name = origin.get("job") if isinstance(origin, Record) else None
    job = jobs.get(name) if isinstance(name, str) else None
    if job is None:
        return None
    config = job.get("config")
    return Upstream(job.get("operator"), config if isinstance(config, dict) else {})
