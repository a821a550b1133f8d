"""Who acts while another one's transaction is open: steps in, or waits for it to commit."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.actors import Actor, Worker
from tests.simulation.runs import Run
from tests.simulation.waiting import Waiting

if TYPE_CHECKING:
    from tests.simulation.world import Turn, World

SWITCHES = ("deploy", "cutover", "rollback", "cancel_deploy")
"""Transactions after which events go elsewhere."""
STEPS = ("deploy_status", "note_report", "deploy_end", "cancel_retired", "revive")
"""Statements of a build that follow from what was read before."""


class Crossing:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting = Waiting(world.state)
        self.interleaved = False
        """Somebody else has acted since this call began."""
        self.crossed = False
        """Somebody else has acted since this step began."""

    def ended(self) -> None:
        """A transaction is over: whoever waited for it goes on."""
        self._waiting.end()

    def point(self, name: str) -> None:
        """A named point of a service: others may come here, and the service may end here."""
        world = self._world
        transaction, _, moment = name.partition(":")
        if world.state.depth == 0 and world.versions.edited:
            if moment == "after_commit":
                self._waiting.end()
            elif moment == "before_commit" and transaction in SWITCHES:
                self._let_wait(self._announces, 0.7)
            elif moment == "before_commit" and transaction in ("complete_one", "reduce"):
                self._let_wait(self._switches, 0.05)
            elif moment == "before_commit" and transaction in STEPS:
                self.between(transaction)
        world.faults.point(name)

    # Waits ---------------------------------------------------------------------------------------

    def _announces(self, turn: Turn) -> bool:
        """Somebody of the edited DAG who has something to say."""
        run = turn.actor
        if not isinstance(run, Run) or run.org_id != self._world.editor.org or run.dead:
            return False
        return turn.label in ("reports", "emits") and run.plan == "complete"

    def _switches(self, turn: Turn) -> bool:
        return turn.actor in (self._world.editor, *self._world.dispatchers)

    def _let_wait(self, wanted: Callable[[Turn], bool], probability: float) -> None:
        """Somebody begins a turn that waits for what this transaction holds until it commits."""
        world = self._world
        turns = [t for t in world.turns if not t.taken and t.actor is not world.current]
        near = sorted(turn for turn in turns if wanted(turn))
        if self._waiting.is_somebody or not near or world.rng.random() > probability:
            return
        world.faults.kinds["waited"] += 1
        # Sources are heard by most.
        loud = [turn for turn in near if isinstance(turn.actor, Run) and turn.actor.is_source]
        turn = world.rng.choice(loud or near)
        self._take_early(turn)
        world.note(f"{turn.actor.name} comes at the same time:")
        self._observe_outside()
        waits = self._waiting.begin(lambda: world.do(turn.actor, turn.label, turn.act))
        world.note(f"{turn.actor.name} {'waits' if waits else 'did not have to wait'}")
        self._came_between()

    # Steps in ------------------------------------------------------------------------------------

    def between(self, name: str) -> None:
        """Inside a transaction of one actor another one may take its turn."""
        world = self._world
        if world.state.depth or not world.faults.on or self._waiting.is_somebody:
            return
        # Counters are read and then charged: whoever wants the same ones comes in between.
        rival = self._rival() if name == "claim_metered" else None
        if rival is not None and world.faults.happens("stepped_in", 0.3):
            self._step_in(rival, "rushes", rival.rush)
        elif world.turns and world.faults.happens("stepped_in", 0.12):
            near = [t for t in heapq.nsmallest(12, world.turns) if not t.taken]
            near = [t for t in near if t.actor is not world.current and t.at < world.seconds + 20]
            if near:
                turn = world.rng.choice(near)
                self._take_early(turn)
                self._step_in(turn.actor, turn.label, turn.act)

    def _take_early(self, turn: Turn) -> None:
        turn.taken = True
        self._world.work -= not turn.is_tick

    def _rival(self) -> Worker | None:
        current = self._world.current
        workers = self._world.workers
        rivals = [w for w in workers if w is not current and not w.down and w.has_room]
        if isinstance(current, Worker):
            rivals = [w for w in rivals if w.org_id == current.org_id]
        return self._world.rng.choice(rivals) if rivals else None

    def _step_in(self, actor: Actor, label: str, act: Callable[[], object]) -> None:
        world = self._world
        world.note(f"{actor.name} steps in:")
        # The first one may have committed something in this very step.
        self._observe_outside()
        world.state.depth = 1
        try:
            world.do(actor, label, act)
        finally:
            world.state.depth = 0
        self._came_between()

    def _observe_outside(self) -> None:
        """What others see while a transaction is open, and not what it has written."""
        self._world.state.depth = 1
        try:
            self._world.oracle.observe(again=True)
        finally:
            self._world.state.depth = 0

    def _came_between(self) -> None:
        """What the first one does from here on was not yet there to be seen."""
        self._world.state.touched = self.interleaved = self.crossed = True
