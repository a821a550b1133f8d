"""The sections of a run: what is measured in which order, and what each figure is held against."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.bare import drop_bare, fill_bare, run_bare
from bench.chain import CHAIN_BATCHES, chain_site, measure_chain
from bench.contract import BATCHES, WORKERS, contract_site, run_contract
from bench.crew import Crew, rate
from bench.history import Filled, filled_database
from bench.latency import (
    busy_site,
    latency_site,
    measure_live,
    measure_push,
    measure_sweep,
)
from bench.over_http import ApiServer, run_over_http
from bench.peers import CONCURRENCY, has_procrastinate, measure_procrastinate
from bench.pool import measure_pool, pool_site
from bench.report import Report, Row
from bench.switches import measure_switches
from bench.world import Server, Site, clear_work

_FILLED_SHARE = 0.8
_BARE_SHARE = {1: 0.5, 100: 0.35}
_P50_MS, _P99_MS = 20.0, 100.0
_BARE_ROWS = {1: 6_000, 100: 130_000}
"""For each second and worker: more than can be done."""
_BARE_SECONDS = 0.3
"""Bare slows down as its table fills with dead rows, to less than half within two seconds. Short
rounds on a new table show it at its best, in a quick run and in a full one alike."""


@dataclass(frozen=True)
class Sizes:
    rounds: int
    seconds: float
    items: int
    events: int
    live_events: int
    backlog: int
    peer_tasks: int
    history: int

    @staticmethod
    def full() -> Sizes:
        return Sizes(5, 1.5, 1_000, 1_500, 20, 10_000, 2_000, 10_000_000)

    @staticmethod
    def quick() -> Sizes:
        return Sizes(2, 0.3, 1_000, 100, 6, 2_000, 300, 200_000)

    def with_history(self, rows: int) -> Sizes:
        return dataclasses.replace(self, history=rows)


class Bench:
    """What the sections share."""

    def __init__(
        self, server: Server, sizes: Sizes, report: Report, say: Callable[[str], None]
    ) -> None:
        self.server = server
        self.sizes = sizes
        self.report = report
        self.say = say
        self.empty = server.fresh("bench_empty")
        self._filled: Filled | None = None
        self.rates: dict[str, float] = {}
        """Our figures, for the sections that print a peer's beside them."""

    @property
    def filled(self) -> Filled | None:
        if self._filled is None and self.sizes.history:
            self._filled = found = filled_database(self.server, self.sizes.history, self.say)
            made = "found" if found.seconds is None else f"made in {found.seconds:.0f} s"
            self.report.remarks.append(
                f"Filled database: {found.rows:,} finished tasks with attempt, input and event"
                f" each, {found.gigabytes:.1f} GB, {made}."
            )
        return self._filled

    def drop_scratch(self) -> None:
        self.server.drop("bench_empty")


def contract(bench: Bench) -> None:
    """Empty, bare and filled take turns, so that the machine's moods hit all three."""
    sizes, figures = bench.sizes, defaultdict[tuple[str, int, int], list[float]](list)
    filled = bench.filled
    sites = {"empty": contract_site(bench.empty, bench.server.home)}
    if filled:
        sites["filled"] = contract_site(filled.dsn, bench.server.home)
    with (
        Crew(sites["empty"], 2) as empty_crew,
        Crew(sites.get("filled", sites["empty"]), 2) as other,
    ):
        crews = {"empty": empty_crew, "filled": other}
        kinds = ["bare", *sites]
        for turn in range(sizes.rounds):
            # Whoever comes first has the checkpoint and the cleaning of the last one behind it.
            order = kinds[turn % len(kinds) :] + kinds[: turn % len(kinds)]
            for workers in WORKERS:
                for batch in BATCHES:
                    for kind in order:
                        found = _one_round(bench, crews, sites, kind, workers, batch)
                        figures[kind, workers, batch].append(found)
    for workers in WORKERS:
        for batch in BATCHES:
            _contract_rows(
                bench,
                {k: median(figures[k, workers, batch]) for k in ("bare", *sites)},
                workers,
                batch,
            )


def _one_round(
    bench: Bench,
    crews: dict[str, Crew],
    sites: dict[str, Site],
    kind: str,
    workers: int,
    batch: int,
) -> float:
    if kind != "bare":
        clear_work(sites[kind].dsn)
        return rate(crews[kind].run(workers, run_contract, batch, bench.sizes.seconds))
    fill_bare(bench.empty, int(_BARE_ROWS[batch] * workers * (_BARE_SECONDS + 0.3)))
    found = rate(crews["empty"].run(workers, run_bare, batch, _BARE_SECONDS))
    drop_bare(bench.empty)
    return found


def _contract_rows(bench: Bench, found: dict[str, float], workers: int, batch: int) -> None:
    section = "Full contract: event accepted, task made, claimed, completed, next task made"
    name = f"{_workers(workers)}, {'one by one' if batch == 1 else f'batches of {batch}'}"
    share = found["empty"] / found["bare"]
    target = _BARE_SHARE[batch] if workers == 1 else None
    bench.rates[f"contract {workers} {batch}"] = found["empty"]
    bench.report.add(
        Row(section, name, found["empty"], "tasks/s", "validation, outbox and wake-up included",
            "bare", share, f">= {target} of bare" if target else "",
            None if target is None else share >= target)
    )  # fmt: skip
    bench.report.add(
        Row(section, f"{name}, bare", found["bare"], "tasks/s",
            "guarded UPDATEs that claim and complete, nothing else")
    )  # fmt: skip
    if "filled" in found:
        kept = found["filled"] / found["empty"]
        bench.report.add(
            Row(section, f"{name}, filled", found["filled"], "tasks/s",
                f"with {bench.sizes.history:,} finished tasks", "empty", kept,
                f">= {_FILLED_SHARE} of empty", kept >= _FILLED_SHARE)
        )  # fmt: skip


def chain(bench: Bench) -> None:
    section = f"Chain A -> B -> C, {bench.sizes.items:,} items"
    figures = defaultdict[tuple[str, int, int], list[float]](list)
    sites = {"empty": chain_site(bench.empty, bench.server.home)}
    if bench.filled:
        sites["filled"] = chain_site(bench.filled.dsn, bench.server.home)
    with (
        Crew(sites["empty"], 2) as empty_crew,
        Crew(sites.get("filled", sites["empty"]), 2) as other,
    ):
        crews = {"empty": empty_crew, "filled": other}
        for turn in range(bench.sizes.rounds + 1):
            for workers in WORKERS:
                for batch in CHAIN_BATCHES:
                    for kind, site in sites.items():
                        clear_work(site.dsn)
                        found = measure_chain(crews[kind], workers, batch, bench.sizes.items)
                        if turn:  # The first turn prepares statements and fills caches.
                            figures[kind, workers, batch].append(found)
    for workers in WORKERS:
        for batch in CHAIN_BATCHES:
            name = f"{_workers(workers)}, batches of {batch}"
            empty = median(figures["empty", workers, batch])
            bench.rates[f"chain {workers} {batch}"] = empty
            took = bench.sizes.items / empty * 1000
            note = f"first event accepted to last C completed: {took:,.0f} ms"
            bench.report.add(Row(section, name, empty, "items/s", note))
            if "filled" in sites:
                filled = median(figures["filled", workers, batch])
                bench.report.add(
                    Row(section, f"{name}, filled", filled, "items/s",
                        f"with {bench.sizes.history:,} finished tasks", "empty", filled / empty,
                        f">= {_FILLED_SHARE} of empty", filled / empty >= _FILLED_SHARE)
                )  # fmt: skip


def latency(bench: Bench) -> None:
    section = "Event to claim at 50 events/s: accept, outbox, NOTIFY, relay, PgQueue, claim"
    site = latency_site(bench.empty, bench.server.home)
    with Crew(site, 2) as crew:
        found = measure_push(site, crew, bench.sizes.events, 50)
    add = bench.report.add
    add(Row(section, "p50", found.p50, "ms", f"commit to claimed, {found.number:,} events",
            target=f"< {_P50_MS:.0f} ms", held=found.p50 < _P50_MS))  # fmt: skip
    add(Row(section, "p95", found.p95, "ms", ""))
    add(Row(section, "p99", found.p99, "ms", "", target=f"< {_P99_MS:.0f} ms",
            held=found.p99 < _P99_MS))  # fmt: skip
    swept = measure_sweep(site, 200)
    add(Row(section, "push off", swept.claimed_by_relay, f"of {swept.events}",
            "claimed after one scheduled run of the relay", target="all",
            held=swept.claimed_by_relay == swept.events))  # fmt: skip
    add(Row(section, "wake-ups lost", swept.claimed_by_sweep, f"of {swept.events}",
            "claimed after one sweep of the Dispatcher", target="all",
            held=swept.claimed_by_sweep == swept.events))  # fmt: skip


def live(bench: Bench) -> None:
    sizes = bench.sizes
    site = busy_site(bench.empty, bench.server.home)
    with Crew(site, 2) as crew:
        found = measure_live(
            site, crew, backlog=sizes.backlog, events=sizes.live_events, task_seconds=0.2
        )
    section = f"Live before backfill: 2 workers on 200 ms tasks, {sizes.backlog:,} more queued"
    bench.report.add(
        Row(section, f"worst of {found.number}", found.worst, "ms",
            f"live event to claimed; median {found.p50:.0f} ms", target="< 1000 ms",
            held=found.worst < 1000)
    )  # fmt: skip


def pool(bench: Bench) -> None:
    site = pool_site(bench.empty, bench.server.home)
    seconds = bench.sizes.seconds * 2
    with Crew(site, 2) as crew:
        found = measure_pool(site, crew, seconds, int(3_000 * seconds))
    section = f"Metered: a pool of {found.slots} slots, claims from 2 processes"
    bench.report.add(
        Row(section, "most at once", found.most_leases, "tasks",
            f"{found.readings:,} readings; slots held twice: {found.held_twice}",
            target=f"<= {found.slots}",
            held=found.most_leases <= found.slots and not found.held_twice)
    )  # fmt: skip
    bench.report.add(
        Row(section, "metered path", found.tasks_per_second, "tasks/s",
            "claim under the counter's lock, complete with an event, slot given back")
    )  # fmt: skip


def switches(bench: Bench) -> None:
    waiting = 100_000 if bench.sizes.rounds > 2 else 10_000
    for datasets in (200, 2_000):
        found = measure_switches(
            bench.empty, bench.server.home, datasets=datasets, waiting=waiting, rounds=5
        )
        section = f"Switch of {datasets:,} datasets with {waiting:,} waiting tasks: one transaction"
        target = "< 50 ms" if datasets == 200 else ""
        for name, figure in (
            ("cutover", found.cutover),
            ("rollback", found.rollback),
            ("roll forward", found.forward),
            ("worst of all", found.worst),
        ):
            bench.report.add(
                Row(section, name, figure, "ms", "nothing of the DAG is claimed meanwhile",
                    target=target, held=figure < 50 if target else None)
            )  # fmt: skip


def http(bench: Bench) -> None:
    section = "The same over HTTP on loopback: one server process, one caller"
    site = contract_site(bench.empty, bench.server.home)
    for batch in BATCHES:
        clear_work(site.dsn)
        with ApiServer(site) as server:
            done = run_over_http(site, server.url, server.token, batch, bench.sizes.seconds * 2)
        ours = bench.rates.get(f"contract 1 {batch}")
        name = "one by one" if batch == 1 else f"batches of {batch}"
        bench.report.add(
            Row(section, name, rate([done]), "tasks/s", "payloads and capability tokens included",
                "in process" if ours else "", rate([done]) / ours if ours else None)
        )  # fmt: skip


def peers(bench: Bench) -> None:
    if not has_procrastinate():
        bench.report.remarks.append("procrastinate is not installed: uv sync --group bench.")
        return
    found = measure_procrastinate(bench.empty, bench.sizes.peer_tasks, bench.sizes.items)
    section = f"procrastinate {found.version} on the same Postgres, 1 worker"
    for name, figure, unit, ours, note in (
        ("one at a time", found.one_by_one, "tasks/s", "contract 1 1", "batch defer and run"),
        (f"{CONCURRENCY} at once", found.concurrent, "tasks/s", "contract 1 100", "the same"),
        ("chain A -> B -> C", found.chain, "items/s", "chain 1 100", f"{CONCURRENCY} at once"),
    ):
        beside = bench.rates.get(ours)
        if beside:
            note += f"; ours: {beside:,.0f} ({ours.split()[0]}, batches of {ours.split()[2]})"
        bench.report.add(Row(section, name, figure, unit, note))


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"


SECTIONS: dict[str, Callable[[Bench], None]] = {
    "contract": contract,
    "chain": chain,
    "latency": latency,
    "live": live,
    "pool": pool,
    "switches": switches,
    "http": http,
    "peers": peers,
}
