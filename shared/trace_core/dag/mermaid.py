"""A DAG for other programs: Mermaid text for documents, plain JSON for the rest."""

from __future__ import annotations

from typing import Any

from trace_core.dag.model import Dag, DatasetName


def to_mermaid(dag: Dag) -> str:
    """A left-to-right flowchart; dotted lines are inputs that are read but do not trigger."""
    lines = ["flowchart LR"]
    # Prefixes keep names apart from each other and from Mermaid's own words, such as `end`.
    for job in dag.jobs:
        code = job.operator or (f"udf {job.udf.entrypoint}" if job.udf else "")
        pool = f"<br/>pool {job.worker_pool}" if job.worker_pool else ""
        lines.append(f'    job_{job.name}["{job.name}<br/>{code}<br/>{job.runtime}{pool}"]')
    external = list(dag.external_datasets())
    for dataset in dict.fromkeys(name for name, _, _ in external):
        lines.append(f'    from_{dataset}[("{dataset}")]')
    for publication in dag.publications:
        lines.append(f'    to_{publication.name}(["{publication.name}"])')
    for edge in dag.edges():
        arrow = "-->" if edge.trigger else "-.->"
        lines.append(f"    job_{edge.origin.job} {arrow}|{edge.origin.output}| job_{edge.job}")
    for dataset, reader, trigger in external:
        lines.append(f"    from_{dataset} {'-->' if trigger else '-.->'} job_{reader}")
    for publication in dag.publications:
        for part in publication.parts:
            lines.append(f"    job_{part.job} ==>|{part.output}| to_{publication.name}")
    return "\n".join(lines)


def to_json(dag: Dag) -> dict[str, Any]:
    """Jobs, edges, publications and pools with the names of the file."""
    return {
        "name": dag.name,
        "jobs": [
            {
                "name": job.name,
                "activation": job.activation.value,
                "runtime": job.runtime.value,
                "operator": job.operator,
                "udf": job.udf.entrypoint if job.udf else None,
                "outputs": job.outputs,
                "worker_pool": job.worker_pool,
            }
            for job in dag.jobs
        ],
        "edges": [
            {
                "job": edge.origin.job,
                "output": edge.origin.output,
                "reader": edge.job,
                "trigger": edge.trigger,
                "dataset": edge.dataset,
            }
            for edge in dag.edges()
        ],
        "datasets": [
            {"dataset": each.origin.dataset, "reader": job.name, "trigger": each.trigger}
            for job in dag.jobs
            for each in job.inputs
            if isinstance(each.origin, DatasetName)
        ],
        "publications": [
            {
                "name": publication.name,
                "from": [{"job": part.job, "output": part.output} for part in publication.parts],
            }
            for publication in dag.publications
        ],
        "worker_pools": [
            {"name": pool.name, "slots": [slot.name for slot in pool.slots]}
            for pool in dag.worker_pools
        ],
    }
