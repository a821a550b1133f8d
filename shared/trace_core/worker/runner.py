"""Runs one invoked task: exchanges its start token, runs the operator, reports the outcome.

An invoke may come twice; the exchange lets one of them work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from trace_core.worker.attempt import Attempt, RunControl
from trace_core.worker.client import TaskApi
from trace_core.worker.completions import PATIENCE, Report, report_until_settled
from trace_core.worker.heartbeats import Heartbeats
from trace_core.worker.supervision import Supervisor

logger = logging.getLogger(__name__)


class Runner:
    def __init__(
        self,
        api: TaskApi,
        supervisor: Supervisor,
        *,
        new_runner_id: Callable[[], str],
        cancel_grace: float = 5.0,
        patience: float = PATIENCE,
    ) -> None:
        self._api = api
        self._supervisor = supervisor
        self._new_runner_id = new_runner_id
        self._cancel_grace = cancel_grace
        self._patience = patience

    def run(self, payload: Mapping[str, Any], control: RunControl | None = None) -> str:
        """The status that was reported, or why nothing was run."""
        control = control or RunControl()
        answer = self._api.start(payload["task_id"], payload["start_token"], self._new_runner_id())
        if answer["status"] != "Claimed":
            logger.info("not started: %s", answer.get("reason"))
            return f"NotClaimed: {answer.get('reason')}"
        attempt = Attempt.of(answer)
        api = self._api.with_token(attempt.payload["capability_token"])
        heartbeats = Heartbeats(api.heartbeat, self._cancel_grace)
        try:
            heartbeats.add(attempt, control)
            outcome = self._supervisor.run(attempt, control)
            heartbeats.ending(attempt)
            if outcome is None:
                return "LeaseLost"
            settled = report_until_settled(Report(attempt, outcome), api.complete, self._patience)
            return outcome.status if settled else "NotReported"
        finally:
            heartbeats.close()
