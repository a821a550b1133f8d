"""The commit of two databases, all of it at small scope: every order of what may happen.

Breadth first over the real services, as `exhaustive.py` does it: a state is known by what its
tables say, and is put back before each action. From every state the world must come to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.simulation.commit_oracle import TASKS, unfinished
from tests.simulation.two_databases import Kept, Limits, SmallWorld
from trace_core.storage.model import Backend

Where = tuple[Backend, Limits]
WORLDS: dict[str, Where] = {
    "retries": (Backend.POSTGRES, Limits("AB", "", "")),
    "older": (Backend.POSTGRES, Limits("A", "A", "A")),
    "newer": (Backend.POSTGRES, Limits("B", "B", "")),
    "by_hand": (Backend.POSTGRES, Limits("A", "A", "A", "A", tasks=1)),
    "manifests": (Backend.S3, Limits("AB", "AB", "")),
}
"""Bad things happen to both tasks, to the one with older pins, to the one with newer pins; a person
retries the only one; and the S3 layout."""
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
    """One state, the way into it, and where each possible action leads."""

    kept: Kept
    path: tuple[str, ...]
    actions: tuple[str, ...]
    left: str | None
    """What is still to be done."""
    leased: tuple[str, ...]
    leads_to: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(world: SmallWorld, path: tuple[str, ...]) -> _State:
        now = world.now
        left = unfinished(now.seen, now.history)
        # What was parsed of it takes more room than all the rest.
        kept = replace(now, seen=replace(now.seen))
        return _State(kept, path, tuple(world.actions()), left, tuple(now.seen.leased))


class _Stop(Exception):
    """The first violation is enough."""


class Walk:
    def __init__(self, world: SmallWorld, *, first_only: bool = False) -> None:
        self._world = world
        self._first_only = first_only
        self.found = Found()
        self._states = {world.now.key: _State.of(world, ())}
        self._ends: set[str] = set()
        """States from which everything is known to end."""

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
        """One path, and from there to the end."""
        key: str | None = next(iter(self._states))
        try:
            for action in path:
                key = self._go(key, action) if key is not None else None
            if key is not None:
                self._drain(key)
        except _Stop:
            pass
        self._count()
        return self.found

    def _count(self) -> None:
        self.found.states = len(self._states)
        self.found.transitions = sum(len(each.leads_to) for each in self._states.values())

    def _step(self, key: str) -> Iterator[str]:
        """Take every action that is possible here; answers the states that are new."""
        for action in self._states[key].actions:
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
            self._states[reached] = _State.of(world, path)
        return reached

    def _violated(self, path: tuple[str, ...], problem: str) -> None:
        self.found.violations.append((path, problem))
        if self._first_only:
            raise _Stop

    def _drain(self, key: str) -> None:
        """All workers are gone; new ones, the reaper and the sweep do the rest."""
        passed = [key]
        known = len(self._states)
        left: str | None = ""
        for _ in range(_ROUNDS):
            if passed[-1] in self._ends or left is None:
                self._ends.update(passed)
                self.found.drained += len(self._states) - known
                return
            following = self._round(passed[-1])
            if following is None:
                return
            passed.append(following)
            left = self._states[following].left
        self._violated(self._states[key].path, f"does not end: {left}")

    def _round(self, key: str) -> str | None:
        for task in TASKS:
            following = self._run(key, task)
            if following is None:
                return None
            key = following
        return self._go(key, "sweep") if "sweep" in self._states[key].actions else key

    def _run(self, key: str, task: str) -> str | None:
        """Give a task to a new worker, which does all that it should."""
        for verb in ("expire", "claim", "begin", "write", "commit", "report"):
            state = self._states[key]
            newest = f"{task}{state.kept.history.claimed.get(task, 0)}"
            action = f"{verb}_{task if verb in ('expire', 'claim') else newest}"
            if action in state.actions or (verb == "expire" and task in state.leased):
                reached = self._go(key, action)
                if reached is None:
                    return None
                key = reached
        return key


def explore(world: SmallWorld, *, depth: int | None = None) -> Found:
    """Every state, or those within `depth` actions."""
    return Walk(world).run(depth)
