"""Announces each time of its schedule, which is read in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from cronsim import CronSim

from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, OperatorFailed, Result, TaskContext
from trace_core.operators.configs import TriggerCronConfig

LAST_TICK = "last_tick"


class TriggerCron:
    """The cursor of an event is its time in seconds since 1970."""

    def run(self, task: TaskContext[TriggerCronConfig]) -> Result:
        if task.job.schedule is None:
            raise OperatorFailed("needs a source with a schedule")
        limit = 1 if task.config.catch_up == "latest" else task.config.max_catch_up
        ticks = ticks_between(task.job.schedule, _since(task), task.now, limit)
        if not ticks:
            return Result()
        cursors = [int(tick.timestamp()) for tick in ticks]
        return Result(
            events=[Emit(0, Scope(cursor=cursor)) for cursor in cursors],
            state={LAST_TICK: cursors[-1]},
        )


def ticks_between(schedule: str, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The last `limit` ticks in (after, until], oldest first."""
    # Backwards from just past `until`, so that a long pause costs no more than its ticks' limit.
    just_past = until.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    newest_first = takewhile(lambda tick: tick > after, CronSim(schedule, just_past, reverse=True))
    return list(islice(newest_first, limit))[::-1]


def _since(task: TaskContext[TriggerCronConfig]) -> datetime:
    last = task.state.get(LAST_TICK)
    if last is not None:
        return datetime.fromtimestamp(last.value, UTC)
    # The first time counts from when the source was made: neither a tick before it, nor none.
    return task.created_at or task.now
