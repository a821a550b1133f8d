"""The commit of two databases, all of it at small scope: every order of what may happen.

Breadth first over the real services, as `exhaustive.py` does it: a state is known by what its
tables say, and is put back before each action. From every state the world must come to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.commit_oracle import TASKS, unfinished
from tests.simulation.two_databases import Kept, SmallWorld

_ROUNDS = 6
"""Within which everything ends: an attempt that expires, one that is superseded, and two more."""


@dataclass
class Found:
    states: int = 0
    transitions: int = 0
    drained: int = 0
    """Actions beyond the depth, taken to see that everything ends."""
    depth: int = 0
    closed: bool = False
    """Whether every state is among them: no action leads out."""
    violations: list[tuple[tuple[str, ...], str]] = field(default_factory=list)


@dataclass
class _State:
    kept: Kept
    path: tuple[str, ...]
    leads_to: dict[str, str] = field(default_factory=dict)


class _Stop(Exception):
    """The first violation is enough."""


class Walk:
    def __init__(self, world: SmallWorld, *, first_only: bool = False) -> None:
        self._world = world
        self._first_only = first_only
        self.found = Found()
        self._states = {world.now.key: _State(world.now, ())}

    def run(self, depth: int | None = None) -> Found:
        found = self.found
        frontier = list(self._states)
        try:
            while frontier and (depth is None or found.depth < depth):
                following = [new for key in frontier for new in self._step(key)]
                found.depth += bool(following)
                frontier = following
            found.closed = not frontier
            self._count()
            for key in list(self._states):
                self._drain(key)
        except _Stop:
            self._count()
        return found

    def follow(self, path: Sequence[str]) -> Found:
        """One path, and from each of its states to the end."""
        key: str | None = next(iter(self._states))
        try:
            for action in path:
                key = self._go(key, action) if key is not None else None
            for reached in list(self._states):
                self._drain(reached)
        except _Stop:
            pass
        self._count()
        return self.found

    def _count(self) -> None:
        self.found.states = len(self._states)
        self.found.transitions = sum(len(each.leads_to) for each in self._states.values())

    def _step(self, key: str) -> Iterator[str]:
        """Take every action that is possible here; answers the states that are new."""
        state = self._states[key]
        self._world.put_back(state.kept)
        for action in list(self._world.actions()):
            known = len(self._states)
            reached = self._go(key, action)
            if reached is not None and len(self._states) > known:
                yield reached

    def _go(self, key: str, action: str) -> str | None:
        """Where an action leads; None where it must not."""
        state, world = self._states[key], self._world
        if action in state.leads_to:
            return state.leads_to[action]
        world.put_back(state.kept)
        world.act(action)
        path = (*state.path, action)
        reached = state.leads_to[action] = world.now.key
        if world.problem is not None:
            self._violated(path, world.problem)
            return None
        if reached not in self._states:
            self._states[reached] = _State(world.now, path)
        return reached

    def _violated(self, path: tuple[str, ...], problem: str) -> None:
        self.found.violations.append((path, problem))
        if self._first_only:
            raise _Stop

    def _drain(self, key: str) -> None:
        """All workers are gone; new ones, the reaper and the sweep do the rest."""
        before = len(self._states)
        path = self._states[key].path
        for _ in range(_ROUNDS):
            for task in TASKS:
                ended = self._run(key, task)
                if ended is None:
                    return
                key = ended
            if "sweep" in self._possible(key):
                swept = self._go(key, "sweep")
                if swept is None:
                    return
                key = swept
            kept = self._states[key].kept
            left = unfinished(kept.seen, kept.history)
            if left is None:
                self.found.drained += len(self._states) - before
                return
        self._violated(path, f"does not end: {left}")

    def _run(self, key: str, task: str) -> str | None:
        """Give a task to a new worker, which does all that it should."""
        for verb in ("expire", "claim", "begin", "write", "commit", "report"):
            kept = self._states[key].kept
            newest = f"{task}{kept.history.claimed.get(task, 0)}"
            action = f"{verb}_{task if verb in ('expire', 'claim') else newest}"
            if action in self._possible(key) or (verb == "expire" and task in kept.seen.leased):
                reached = self._go(key, action)
                if reached is None:
                    return None
                key = reached
        return key

    def _possible(self, key: str) -> list[str]:
        self._world.look_at(self._states[key].kept)
        return list(self._world.actions())


def explore(world: SmallWorld, *, depth: int | None = None, first_only: bool = False) -> Found:
    """Every state, or those within `depth` actions."""
    return Walk(world, first_only=first_only).run(depth)
