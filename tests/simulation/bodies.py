"""What runs say: the events of a task, and the body of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_core.kernel.scopes import Scope
from trace_core.tasks.api import Completion, EventIn, OutputIn, StateEntry
from trace_core.tasks.claim import Claimed

if TYPE_CHECKING:
    from tests.simulation.runs import Run
    from tests.simulation.world import World

TASKS_MIN, TASKS_MAX = 30, 22
"""Sources pause at the second, since every task makes others, and go on for the first."""
_OF_BUILDS = 24
"""As many more where a DAG is edited: builds make tasks too, and live ones must go on."""
_RESTS_FOR_GOOD = 80_000.0


def fence(claim: Claimed) -> dict[str, Any]:
    own = claim.fence
    return {
        "task_id": own.task_id, "attempt": own.attempt, "lease_token": own.lease_token,
    }  # fmt: skip


def events(run: Run) -> list[EventIn]:
    """The scope of the trigger, on every output."""
    trigger = run.claim.trigger
    scope = trigger.scope if trigger else Scope()
    revision = trigger.revision if trigger else 0
    return [_event(run, index, scope, revision) for index in range(len(run.job.datasets))]


def _event(run: Run, index: int, scope: Scope, revision: int) -> EventIn:
    return EventIn(
        dataset_uuid=run.job.datasets[index],
        dataset_version=run.job.versions[index],
        revision=revision,
        **scope.fields(),  # type: ignore[arg-type]
    )


def completion(run: Run) -> Completion:
    rng = run.world.rng
    fenced = fence(run.claim)
    if run.world.oracle.is_canceled(run.claim) and rng.random() < 0.8:
        return Completion(**fenced, status="Canceled")
    if run.plan != "complete":
        retryable = run.plan == "fail" or run.is_source
        return Completion(**fenced, status="Failed", error_code="Made", retryable=retryable)
    if run.is_source:
        return _slice(run, fenced)
    announced = events(run)
    outputs = []
    if rng.random() < 0.4:
        outputs = [_output(index, event) for index, event in enumerate(announced)]
    return Completion(**fenced, status="Completed", events=announced, outputs=outputs)


def _output(index: int, event: EventIn) -> OutputIn:
    scope = event.model_dump(exclude={"revision"})
    location = f"postgres_table:dataset_{event.dataset_uuid}"
    return OutputIn(output_index=index, location=location, row_count=1, **scope)


def _slice(run: Run, fenced: dict[str, Any]) -> Completion:
    """The next cursors, from where the state of the last slice ended."""
    world, rng = run.world, run.world.rng
    payload = run.call(lambda host: host.payloads.build([run.claim])[0])
    rows = {row["key"]: row for row in payload["state"]}
    row = rows.get("at", {"revision": 0, "value": {"next": 0, "rewrites": 0}})
    world.oracle.state_seen(run.claim, row["value"])
    value = dict(row["value"])
    behind = _behind(run, value["next"])
    if behind:
        # A source that is built beside another one covers what that one had, whatever else waits.
        scopes = [(cursor, 0) for cursor in range(value["next"], min(behind, value["next"] + 5))]
        value["next"] = scopes[-1][0] + 1
        return _yielded(run, fenced, scopes, row["revision"], value)
    own = world.versions.jobs.get(str(run.claim.job_id))
    # One that is held in the middle of a slice has something to say yet.
    if is_enough(world) and not (own and own.standing == "held"):
        # Another version's source may be built again, and then has to go on.
        is_last = world.draining and (own is None or own.standing == "active")
        rest = _RESTS_FOR_GOOD if is_last else 20.0
        return Completion(**fenced, status="Yielded", resume_after_seconds=rest)
    scopes = [(value["next"] + i, 0) for i in range(rng.randrange(2, 6))]
    if value["next"] and world.faults.happens("event_repeated", 0.2):
        scopes.append((rng.randrange(value["next"]), 0))
    if value["next"] and world.faults.happens("event_rewritten", 0.2):
        value["rewrites"] += 1
        scopes.append((rng.randrange(value["next"]), value["rewrites"]))
    value["next"] = max(cursor for cursor, _ in scopes) + 1
    value["next"] = max(value["next"], row["value"]["next"] + 1)
    return _yielded(run, fenced, scopes, row["revision"], value)


def is_enough(world: World) -> bool:
    """Whether there are so many tasks that sources may rest."""
    wanted = TASKS_MIN if world.draining else TASKS_MAX
    return world.oracle.tasks >= wanted + (_OF_BUILDS if world.versions.edited else 0)


def _behind(run: Run, at: int) -> int:
    """Where the current version of a candidate's output ends, if the candidate is before it."""
    job = run.world.versions.jobs.get(str(run.claim.job_id))
    if job is None or job.standing != "candidate":
        return 0
    covered = {each.dataset_uuid: each.max_end for each in run.world.state.look("covered")}
    end = 1 + max((covered.get(dataset, -1) for dataset in run.job.datasets), default=-1)
    return end if at < end else 0


def _yielded(
    run: Run,
    fenced: dict[str, Any],
    scopes: list[tuple[int, int]],
    revision: int,
    value: dict[str, Any],
) -> Completion:
    return Completion(
        **fenced,
        status="Yielded",
        events=[
            _event(run, index, Scope(cursor=cursor), revision)
            for index in range(len(run.job.datasets))
            for cursor, revision in scopes
        ],
        state=[StateEntry(key="at", revision=revision, value=value)],
        resume_after_seconds=run.world.rng.choice((0, 2, 10)),
    )
