"""Start ready tasks of `runtime: lambda`: reserve, then hand over payload and start token."""

from __future__ import annotations

from collections.abc import Sequence

from trace_core.dag.model import Runtime
from trace_core.kernel.crash_points import CrashPoints, no_crash_points
from trace_core.kernel.errors import Busy
from trace_core.kernel.ids import OrgId
from trace_core.outbox.relay import Send
from trace_core.outbox.store import OutboxRow
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.tasks.claim import Claims
from trace_core.tasks.payload import Payloads

_BATCH = 20


def invoke_ready(
    claims: Claims,
    payloads: Payloads,
    task_runtime: TaskRuntime,
    *,
    crash_points: CrashPoints = no_crash_points,
) -> Send:
    """A reservation whose hand-over failed or got lost lapses, and is then sent again."""

    def send(org_id: OrgId, _rows: Sequence[OutboxRow]) -> None:
        while True:
            room = min(task_runtime.room(), _BATCH)
            if room <= 0:
                raise Busy
            reserved = claims.reserve(org_id, Runtime.LAMBDA, room)
            for payload in payloads.build(reserved):
                crash_points("invoke:before")
                task_runtime.start(payload)
                crash_points("invoke:after")
            if len(reserved) < room:
                return

    return send
