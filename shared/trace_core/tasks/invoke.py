"""Start ready tasks of runtimes that we start ourselves: reserve, then hand over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from trace_core.dag.model import Runtime
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.crash_points import CrashPoints, no_crash_points
from trace_core.kernel.errors import Busy
from trace_core.kernel.ids import OrgId
from trace_core.outbox.relay import Send
from trace_core.outbox.store import OutboxRow
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.payload import Payloads

logger = logging.getLogger(__name__)
_BATCH = 20


def invoke_ready(
    claims: Claims,
    payloads: Payloads,
    task_runtime: TaskRuntime,
    jitter: Jitter,
    *,
    concurrency: int | None = None,
    crash_points: CrashPoints = no_crash_points,
) -> Send:
    """Of `runtime: lambda`: hand over payload and start token."""

    def hand_over(reserved: Sequence[Claimed]) -> None:
        for payload in payloads.build(reserved):
            crash_points("invoke:before")
            task_runtime.start(payload)
            crash_points("invoke:after")

    return reserve_ready(
        claims, Runtime.LAMBDA, task_runtime.room, hand_over, jitter, concurrency=concurrency
    )


def reserve_ready(
    claims: Claims,
    runtime: Runtime,
    free: Callable[[], int],
    hand_over: Callable[[Sequence[Claimed]], None],
    jitter: Jitter,
    *,
    concurrency: int | None = None,
) -> Send:
    """A reservation whose hand-over failed or got lost lapses, and is then sent again.

    `concurrency` is for a runtime that does not count what it holds: all relays together reserve no
    more. Room belongs to no org, so a row of any org lets every org have its share of it: the one
    that holds the fewest comes first.
    """

    def send(org_id: OrgId, _rows: Sequence[OutboxRow]) -> None:
        passed: set[OrgId] = set()
        while line := [o for o in claims.in_line(runtime) if o.org_id not in passed]:
            room = min(free(), _BATCH)
            if concurrency is not None:
                room = min(room, concurrency - line[0].held_by_all)
            if room <= 0:
                raise Busy
            # Among equals chance decides: any order that stays the same would starve the last.
            first = min(line, key=lambda each: (each.held, jitter())).org_id
            share = -(-room // len(line))
            reserved = claims.reserve(first, runtime, share, concurrency=concurrency)
            if not reserved:
                # What it has ready may not run: no capacity. Others need not wait for that.
                passed.add(first)
            try:
                hand_over(reserved)
            except Exception as error:
                if first == org_id:
                    raise
                # The row is not that org's. Its tasks lapse, and come back with a row of their own.
                logger.warning("tasks of %s were not handed over: %s", first, type(error).__name__)
                passed.add(first)

    return send
