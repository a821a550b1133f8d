"""Invokes of lambda jobs, before they hold a lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.runs import Run
from trace_core.kernel.ids import OrgId
from trace_core.tasks.api import StartRequest
from trace_core.tasks.claim import Claimed

if TYPE_CHECKING:
    from tests.simulation.world import World


class LambdaRun:
    """An invoke: it must exchange its start token before it may work."""

    def __init__(
        self, world: World, org_id: OrgId, payload: Mapping[str, Any], *, dies: bool
    ) -> None:
        self.world, self.org_id, self._dies = world, org_id, dies
        self._task_id = UUID(payload["task_id"])
        self._runner_id = f"runner-{world.rng.getrandbits(48):x}"
        self.name = f"invoke {world.name(self._task_id)}"
        self._request = StartRequest(
            task_id=self._task_id,
            start_token=UUID(payload["start_token"]),
            runner_id=self._runner_id,
        )
        self._got: tuple[int, UUID | None] | None = None

    def crashed(self) -> None:
        """The API host died under the exchange: the runner asks again."""
        self.world.oracle.exchange_lost(self._request)
        self.begin_in(self.world.rng.uniform(0.5, 5))

    unavailable = crashed

    def begin_in(self, wait: float) -> None:
        self.world.later(wait, self, "exchanges", self._exchange)  # type: ignore[arg-type]

    def _exchange(self) -> str | None:
        world = self.world
        if self._dies:
            return "died before its exchange"
        world.interleaved = False
        expected = world.oracle.expect_start(self._request)
        answer = world.any_host().claims.start(self._request)
        world.oracle.started(self._request, expected, answer)
        if not isinstance(answer, Claimed):
            return str(answer.reason)
        if world.faults.happens("exchange_reply_lost", 0.1):
            self.begin_in(world.rng.uniform(0.5, 10))
            return "reply lost"
        Run(world, self.org_id, answer).start()
        return f"started {answer.attempt}.{answer.lease_sequence}"
