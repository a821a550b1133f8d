"""Order and cycles of random graphs."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from trace_core.dag.catalog import Catalog
from trace_core.dag.graph import cycles, descendants, order
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag
from trace_core.operators.catalog import builtin_catalog

CATALOG = builtin_catalog()
quick = settings(max_examples=80, deadline=None, database=None)


def make_dag(reads: dict[str, list[str]], catalog: Catalog = CATALOG) -> Dag:
    """A DAG in which each job reads the first output of the given jobs."""
    jobs = []
    for name, upstream in reads.items():
        if upstream:
            inputs = ", ".join(f"{{from: {{job: {each}, output: 0}}}}" for each in upstream)
            jobs.append(
                f"- {{name: {name}, activation: reactive, runtime: dispatcher, outputs: 1, "
                f"operator: range_splitter, config: {{chunk_size: 1}}, "
                f"execution_strategy: PerUpdate, inputs: [{inputs}]}}"
            )
        else:
            jobs.append(
                f"- {{name: {name}, activation: source, runtime: dispatcher, outputs: 1, "
                "operator: range_request, source: {kind: manual}}"
            )
    text = "version: 1\nname: made\njobs:\n" + "\n".join(jobs)
    return load_dag(text, filename="made", catalog=catalog)


@st.composite
def graphs(draw: Callable[..., object], most: int = 12) -> dict[str, list[str]]:
    """Acyclic: each job reads jobs of a hidden order; the file lists them in another."""
    count = draw(st.integers(1, most))
    assert isinstance(count, int)
    reads: dict[str, list[str]] = {}
    for index in range(count):
        chosen = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        assert isinstance(chosen, set)
        reads[f"job_{index}"] = [f"job_{each}" for each in sorted(chosen)]
    names = draw(st.permutations(list(reads)))
    assert isinstance(names, list)
    return {name: reads[name] for name in names}


@quick
@given(graphs())
def test_producers_come_before_their_readers_and_nothing_is_lost(
    reads: dict[str, list[str]],
) -> None:
    place = {job.name: index for index, job in enumerate(order(make_dag(reads)))}
    assert place.keys() == reads.keys()
    assert all(place[each] < place[name] for name, upstream in reads.items() for each in upstream)


@quick
@given(graphs())
def test_descendants_are_what_can_be_reached(reads: dict[str, list[str]]) -> None:
    dag = make_dag(reads)
    for start in reads:
        reached: set[str] = set()
        while True:
            more = {n for n, up in reads.items() if reached.union([start]) & set(up)} - reached
            if not more:
                break
            reached |= more
        assert descendants(dag, [start]) == reached


@quick
@given(
    st.integers(1, 8).flatmap(
        lambda count: st.dictionaries(
            st.sampled_from([f"j{i}" for i in range(count)]),
            st.lists(st.sampled_from([f"j{i}" for i in range(count)]), unique=True, max_size=4),
        )
    )
)
def test_each_cycle_is_a_real_one_and_without_cycles_there_is_an_order(
    feeds: dict[str, list[str]],
) -> None:
    full = {name: [each for each in readers if each != name] for name, readers in feeds.items()}
    for readers in feeds.values():
        for reader in readers:
            full.setdefault(reader, [])
    found = cycles(full)
    for cycle in found:
        assert len(cycle) == len(set(cycle)) >= 2
        assert all(b in full[a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    left = dict(full)
    while True:
        ready = [n for n in left if not any(n in readers for readers in left.values())]
        if not ready:
            break
        for name in ready:
            del left[name]
    assert bool(left) == bool(found)


def test_a_dataset_of_the_same_dag_counts_as_an_edge_to_each_of_its_parts(
    example: str, catalog: Catalog
) -> None:
    text = example.replace("from: { dataset: address_labels }", "from: { dataset: blocks }")
    dag = load_dag(text, filename="a", catalog=catalog)
    through = [edge.origin.job for edge in dag.edges() if edge.dataset == "blocks"]
    assert through == ["follow", "backfill", "compact"]
    assert "transfers" in descendants(dag, ["history"])
