"""A small world, all of it: one lambda task, one slot, two runners, and every order of events.

Breadth first over the real services. A state is known by what the tables say, so that two paths
into one state are walked once; its few rows are kept, and put back before each action. The key has
times as what they mean to the next action, which makes the states finite: the search ends by itself
when no action leads to a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.database import Definitions
from tests.simulation.small_world import ACTIONS, MAX_ATTEMPTS, Kept, SmallWorld


@dataclass
class Found:
    states: int = 0
    transitions: int = 0
    depth: int = 0
    closed: bool = False
    """Whether every state is among them: no action leads out."""
    violations: list[tuple[tuple[str, ...], str]] = field(default_factory=list)


@dataclass
class _State:
    """One state, the way into it, and where each possible action leads."""

    kept: Kept
    path: tuple[str, ...]
    is_over: bool
    leads_to: dict[str, str] = field(default_factory=dict)
    is_walked: bool = False


def explore(definitions: Definitions, *, depth: int | None = None) -> Found:
    """Every state, or those within `depth` actions; from each one the task must be able to end."""
    found = Found()
    world = SmallWorld(definitions)
    states: dict[str, _State] = {}
    first = world.key()
    states[first] = _State(world.keep(), (), world.is_over)
    frontier = [first]
    while frontier and (depth is None or found.depth < depth):
        following: list[str] = []
        for key in frontier:
            following += _step(world, states, key, found)
        frontier = following
        found.depth += bool(following)
    found.states, found.closed = len(states), not frontier
    for state in states.values():
        if not _ends(world, states, state):
            found.violations.append((state.path, "does not end within a bound"))
    return found


def _step(world: SmallWorld, states: dict[str, _State], key: str, found: Found) -> Iterator[str]:
    """Take every action that is possible here; answers the states that are new."""
    state = states[key]
    for action in ACTIONS:
        world.put_back(state.kept)
        if not world.act(action):
            continue
        found.transitions += 1
        path = (*state.path, action)
        if world.problem is not None:
            found.violations.append((path, world.problem))
            continue
        reached = state.leads_to[action] = world.key()
        if reached not in states:
            states[reached] = _State(world.keep(), path, world.is_over)
            yield reached
    state.is_walked = True


_BY_ITSELF = ("wait", "reap", "due", "reserve")
_ENDS_WITHIN = 6 * MAX_ATTEMPTS * 3


def _ends(world: SmallWorld, states: dict[str, _State], state: _State) -> bool:
    """Let sweeps and time do their part: the task ends, or is given up with an alarm."""
    for _ in range(_ENDS_WITHIN):
        if state.is_over:
            return True
        for action in _BY_ITSELF:
            if not state.is_walked:
                # Beyond the depth nobody has looked where it leads.
                return _ends_beyond(world, state)
            state = states[state.leads_to[action]] if action in state.leads_to else state
    return False


def _ends_beyond(world: SmallWorld, state: _State) -> bool:
    world.put_back(state.kept)
    for _ in range(_ENDS_WITHIN):
        if world.is_over:
            return True
        for action in _BY_ITSELF:
            world.act(action)
            if world.problem is not None:
                return False
    return False
