"""Order and cycles of jobs. Nothing here recurses, so a chain of any length is fine."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping

from trace_core.dag.model import Dag, Job

Feeds = Mapping[str, Iterable[str]]
"""Job -> the jobs that read it."""


def feeds_of(dag: Dag) -> dict[str, list[str]]:
    """Every job with its readers, both in file order, without repeats."""
    feeds: dict[str, dict[str, None]] = {job.name: {} for job in dag.jobs}
    for edge in dag.edges():
        feeds[edge.origin.job][edge.job] = None
    return {name: list(readers) for name, readers in feeds.items()}


def order(dag: Dag) -> tuple[Job, ...]:
    """Producers before readers; otherwise as in the file."""
    feeds = feeds_of(dag)
    place = {job.name: index for index, job in enumerate(dag.jobs)}
    waiting = dict.fromkeys(feeds, 0)
    for readers in feeds.values():
        for reader in readers:
            waiting[reader] += 1
    ready = [place[name] for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    ordered: list[Job] = []
    while ready:
        job = dag.jobs[heapq.heappop(ready)]
        ordered.append(job)
        for reader in feeds[job.name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, place[reader])
    return tuple(ordered)


def descendants(dag: Dag, names: Iterable[str]) -> frozenset[str]:
    """The jobs that read these, directly or through others; without these themselves."""
    feeds = feeds_of(dag)
    start = set(names)
    reached: set[str] = set()
    ahead = deque(start)
    while ahead:
        for reader in feeds[ahead.popleft()]:
            if reader not in reached:
                reached.add(reader)
                ahead.append(reader)
    return frozenset(reached - start)


def cycles(feeds: Feeds) -> list[list[str]]:
    """One shortest cycle from each knot of jobs that depend on each other, in file order."""
    place = {name: index for index, name in enumerate(feeds)}
    found = []
    for component in _components(feeds):
        if len(component) > 1:
            start = min(component, key=place.__getitem__)
            found.append(_way_back(feeds, start, component))
    return sorted(found, key=lambda cycle: place[cycle[0]])


def _way_back(feeds: Feeds, start: str, inside: set[str]) -> list[str]:
    """Breadth first from `start` back to it."""
    came_from: dict[str, str] = {}
    ahead = deque([start])
    while ahead:
        here = ahead.popleft()
        for reader in feeds[here]:
            if reader == start:
                way = [here]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if reader in inside and reader not in came_from:
                came_from[reader] = here
                ahead.append(reader)
    raise AssertionError("a job of a component always reaches itself")


def _components(feeds: Feeds) -> list[set[str]]:
    """Strongly connected components: reachable forwards and backwards (Kosaraju)."""
    backwards: dict[str, list[str]] = {name: [] for name in feeds}
    for name, readers in feeds.items():
        for reader in readers:
            backwards[reader].append(name)
    finished: list[str] = []
    seen: set[str] = set()
    for name in feeds:
        _walk(name, feeds, seen, finished)
    components = []
    assigned: set[str] = set()
    for name in reversed(finished):
        if name not in assigned:
            members: list[str] = []
            _walk(name, backwards, assigned, members)
            components.append(set(members))
    return components


def _walk(start: str, edges: Feeds, seen: set[str], finished: list[str]) -> None:
    """Depth first without recursion; appends each node when all behind it is done."""
    if start in seen:
        return
    seen.add(start)
    stack = [(start, iter(edges[start]))]
    while stack:
        node, following = stack[-1]
        for each in following:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(edges[each])))
                break
        else:
            stack.pop()
            finished.append(node)
