"""Two small worlds, all of them: one lambda task with one slot and two runners, and one job that is
edited, cut over and rolled back while events come; in every order.

Breadth first over the real services. A state is known by what the tables say, so that two paths
into one state are walked once; its few rows are kept, and put back before each action. The key has
times as what they mean to the next action, which makes the states finite: the search ends by itself
when no action leads to a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.database import Definitions
from tests.simulation.small_deploys import Forward, GivenUp, SmallDeploys, ThereAndBack
from tests.simulation.small_world import SmallWorld

World = SmallWorld | SmallDeploys
WORLDS: dict[str, type[World]] = {
    "starts": SmallWorld, "forward": Forward, "there_and_back": ThereAndBack, "given_up": GivenUp,
}  # fmt: skip
BEYOND = 40
"""States at the depth where a walk stops from which it is tried whether all ends."""


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

    kept: Any
    path: tuple[str, ...]
    is_over: bool
    leads_to: dict[str, str] = field(default_factory=dict)
    is_walked: bool = False


def explore(
    definitions: Definitions,
    *,
    depth: int | None = None,
    world_type: type[World] = SmallWorld,
    stop_at_first: bool = False,
) -> Found:
    """Every state, or those within `depth` actions; from each one all must be able to end."""
    found = Found()
    world = world_type(definitions)
    states: dict[str, _State] = {}
    first = world.key()
    states[first] = _State(world.keep(), (), world.is_over)
    frontier = [first]
    while frontier and (depth is None or found.depth < depth):
        following: list[str] = []
        for key in frontier:
            following += _step(world, states, key, found)
            if stop_at_first and found.violations:
                return found
        frontier = following
        found.depth += bool(following)
    found.states, found.closed = len(states), not frontier
    beyond = set(frontier[:: max(1, len(frontier) // BEYOND)])
    for key, state in states.items():
        if not _ends(world, states, state, beyond=key in beyond or depth is None):
            found.violations.append((state.path, "does not end well within a bound"))
            if stop_at_first:
                break
    return found


def _step(world: World, states: dict[str, _State], key: str, found: Found) -> Iterator[str]:
    """Take every action that is possible here; answers the states that are new."""
    state = states[key]
    for action in world.actions:
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


def _ends(world: World, states: dict[str, _State], state: _State, *, beyond: bool) -> bool:
    """Let sweeps, workers and time do their part: all ends as it must, or with an alarm."""
    for _ in range(world.ends_within):
        if state.is_over:
            return True
        for action in world.by_itself:
            if not state.is_walked:
                # Beyond the depth nobody has looked where it leads.
                return not beyond or _ends_beyond(world, state)
            state = states[state.leads_to[action]] if action in state.leads_to else state
    return False


def _ends_beyond(world: World, state: _State) -> bool:
    world.put_back(state.kept)
    for _ in range(world.ends_within):
        if world.is_over:
            return True
        for action in world.by_itself:
            world.act(action)
            if world.problem is not None:
                return False
    return False
