"""The DAGs that schedules run: a live fan-out, ranges on request, and cron beside a lambda source.

Each one has metered jobs, a pool, control jobs or a lambda job, so that a schedule of any shape
passes through every part of the task contract.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind
from trace_core.operators.catalog import builtin_catalog


class NoConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")


def catalog() -> Catalog:
    """The built-in control operators, and some whose work the simulated workers make up; each of
    them twice, so that an edit can name another one."""
    built_in = builtin_catalog()
    source = OperatorSpec(
        name="made_up_source",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        config=NoConfig,
        description="Announces one cursor after the other.",
        outputs=range(1, 4),
        source_kinds=frozenset({SourceKind.ALWAYS_ON}),
    )
    work = OperatorSpec(
        name="made_up_work",
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        config=NoConfig,
        description="Announces the scope of its trigger on every output.",
        outputs=range(1, 4),
    )
    return built_in.with_operators(
        source,
        replace(source, name="made_up_resource"),
        work,
        replace(work, name="made_up_rework"),
        replace(built_in["range_request"], name="range_request_anew"),
    )


FAN = """
version: 1
name: fan
worker_pools:
  pool:
    - {name: one, env: {N: "1"}}
    - {name: two, env: {N: "2"}}
jobs:
  - {name: src, activation: source, runtime: worker, operator: made_up_source,
     source: {kind: always_on}, worker_pool: pool, outputs: 2, update_strategy: replace}
  - {name: work, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerUpdate, worker_pool: pool, timeout_seconds: 240,
     inputs: [{from: {job: src, output: 0}}], outputs: 1, update_strategy: replace}
  - {name: narrow, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerUpdate, scaling: {max_concurrency: 1},
     inputs: [{from: {job: work, output: 0}}], outputs: 1, update_strategy: replace}
  - {name: wide, activation: reactive, runtime: lambda, operator: made_up_work,
     execution_strategy: PerUpdate, scaling: {max_concurrency: 2}, timeout_seconds: 300,
     inputs: [{from: {job: src, output: 1}}], outputs: 1, update_strategy: replace}
  - {name: whole, activation: reactive, runtime: dispatcher, operator: range_aggregator,
     execution_strategy: PerUpdate, inputs: [{from: {job: wide, output: 0}}], outputs: 1,
     update_strategy: replace, config: {cursor: n, range_size: 3}}
"""

RANGES = """
version: 1
name: ranges
worker_pools:
  pool:
    - {name: one, env: {N: "1"}}
    - {name: two, env: {N: "2"}}
jobs:
  - {name: ask, activation: source, runtime: dispatcher, operator: range_request,
     source: {kind: manual}, outputs: 1, update_strategy: replace}
  - {name: chunks, activation: reactive, runtime: dispatcher, operator: range_splitter,
     execution_strategy: PerPartition, inputs: [{from: {job: ask, output: 0}}], outputs: 1,
     update_strategy: replace, config: {chunk_size: 10}}
  - {name: load, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerPartition, inputs: [{from: {job: chunks, output: 0}}],
     worker_pool: pool, priority: backfill, outputs: 2, update_strategy: replace}
  - {name: live, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerPartition, inputs: [{from: {job: load, output: 1}}],
     worker_pool: pool, outputs: 1, update_strategy: replace}
  - {name: whole, activation: reactive, runtime: dispatcher, operator: range_aggregator,
     execution_strategy: PerUpdate, inputs: [{from: {job: load, output: 0}}], outputs: 1,
     update_strategy: replace, config: {cursor: n, range_size: 20}}
  - {name: tell, activation: reactive, runtime: lambda, operator: made_up_work,
     execution_strategy: PerPartition, inputs: [{from: {job: whole, output: 0}}],
     scaling: {max_concurrency: 1}, outputs: 1, update_strategy: replace}
"""

MIXED = """
version: 1
name: mixed
worker_pools:
  pool:
    - {name: only, env: {N: "1"}}
jobs:
  - {name: tick, activation: source, runtime: dispatcher, operator: trigger_cron,
     source: {kind: cron, schedule: "* * * * *"}, outputs: 1, update_strategy: replace}
  - {name: feed, activation: source, runtime: lambda, operator: made_up_source,
     source: {kind: always_on}, scaling: {max_concurrency: 1}, outputs: 2,
     update_strategy: replace}
  - {name: join, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerUpdate, max_attempts: 2, scaling: {max_concurrency: 1},
     outputs: 1, update_strategy: replace,
     inputs: [{from: {job: feed, output: 0}, trigger: true},
              {from: {job: tick, output: 0}, trigger: true}]}
  - {name: one, activation: reactive, runtime: lambda, operator: made_up_work,
     execution_strategy: PerUpdate, worker_pool: pool, timeout_seconds: 200,
     inputs: [{from: {job: feed, output: 1}}], outputs: 1, update_strategy: replace}
  - {name: free, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerUpdate, inputs: [{from: {job: one, output: 0}}], outputs: 1,
     update_strategy: replace}
"""

LATE = """
version: 1
name: late
worker_pools:
  pool:
    - {name: only, env: {N: "1"}}
jobs:
  - {name: more, activation: source, runtime: worker, operator: made_up_source,
     source: {kind: always_on}, worker_pool: pool, outputs: 1, update_strategy: replace}
  - {name: after, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerUpdate, inputs: [{from: {job: more, output: 0}}], outputs: 1,
     update_strategy: replace}
"""
"""Not there at first: deployed in the middle of a schedule, beside what runs."""

SHAPES = {"fan": FAN, "ranges": RANGES, "mixed": MIXED}
