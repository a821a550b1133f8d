from __future__ import annotations

from trace_core.dag.announced import announced_by_trigger
from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.model import JobOutput
from trace_core.operators.catalog import load_catalog

HEAD = """
version: 1
name: chain
worker_pools: {rpc: [{name: a, env: {RPC_UPSTREAM: a}}]}
jobs:
  - {name: follow, activation: source, runtime: worker, operator: block_follower,
     source: {kind: always_on}, worker_pool: rpc, outputs: 3, update_strategy: replace,
     config: {chain_id: 1}}
  - {name: ranges, activation: reactive, runtime: dispatcher, operator: range_aggregator,
     execution_strategy: PerUpdate, inputs: [{from: {job: follow, output: 0}}],
     update_strategy: replace, outputs: 1, config: {cursor: number, range_size: 10}}
  - {name: decode, activation: reactive, runtime: emr_serverless, operator: decode_logs,
     execution_strategy: PerPartition, update_strategy: replace, outputs: 1,
     config: {events: [erc20.Transfer]}, inputs: [
"""


def announced(inputs: str) -> set[tuple[str, int]]:
    catalog: Catalog = load_catalog(())
    dag = load_dag(HEAD + inputs + "]}\n", filename="chain.dag.yaml", catalog=catalog)
    found = announced_by_trigger(dag, dag.jobs[-1], catalog)
    assert all(isinstance(each, JobOutput) for each in found)
    return {(each.job, each.output) for each in found}


def test_ranges_speak_for_all_that_they_are_made_of_and_for_what_is_committed_with_it() -> None:
    inputs = "{from: {job: ranges, output: 0}}, {from: {job: follow, output: 2}, as: logs}"
    assert announced(inputs) == {("ranges", 0), ("follow", 0), ("follow", 1), ("follow", 2)}


def test_a_trigger_speaks_for_nothing_that_it_does_not_follow_from() -> None:
    inputs = "{from: {job: follow, output: 2}, as: logs}, {from: {job: ranges, output: 0}}"
    assert announced(inputs) == {("follow", 0), ("follow", 1), ("follow", 2)}
