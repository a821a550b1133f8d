"""Control work: operators of `runtime: dispatcher`, which emit events and touch no data.

A reducer's state rows are locked, changed and written in the transaction that completes its tasks,
so that state and events never tell different stories.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from trace_core.dag.catalog import Catalog
from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase, Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.kernel.ids import OrgId
from trace_core.operators.api import (
    Emit,
    Event,
    Operator,
    OperatorFailed,
    Reducer,
    Result,
    is_reducer,
    load_operator,
    task_context,
)
from trace_core.ports.clock import Clock
from trace_core.tasks.api import Completion, EventIn, StateEntry
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.complete import Completions
from trace_core.tasks.payload import JobInfo, Payloads
from trace_core.tasks.results import put_state
from trace_core.tasks.statements import SQL

logger = logging.getLogger(__name__)
WORKER_ID = "dispatcher"


class _LeasesLost(Exception):
    """Some of the batch is no longer ours: nothing is written, and the rest is done again."""

    def __init__(self, kept: set[UUID]) -> None:
        self.kept = kept


class Control:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        claims: Claims,
        completions: Completions,
        payloads: Payloads,
        catalog: Catalog,
    ) -> None:
        self._state = state
        self._clock = clock
        self._claims = claims
        self._completions = completions
        self._payloads = payloads
        self._catalog = catalog

    def run_once(self, limit: int = 100) -> int:
        """Claim and run one batch for each org; answers how many tasks were claimed."""
        ran = 0
        for row in self._state.read(SQL["orgs_with_ready"], {"runtime": Runtime.DISPATCHER.value}):
            claims = self._claims.claim(row.org_id, Runtime.DISPATCHER, limit, WORKER_ID)
            ran += len(claims)
            by_job: dict[UUID, list[Claimed]] = {}
            for claim in claims:
                by_job.setdefault(claim.job_id, []).append(claim)
            for batch in by_job.values():
                self._run_batch(row.org_id, batch)
        return ran

    def _run_batch(self, org_id: OrgId, batch: list[Claimed]) -> None:
        info = self._payloads.job(batch[0].job_id)
        try:
            operator, config = self._load(info)
        except Exception as error:
            self._fail(org_id, batch, error)
            return
        if is_reducer(operator):
            self._reduce(org_id, info, operator, config, batch)  # type: ignore[arg-type]
        else:
            self._run_each(org_id, info, operator, config, batch)  # type: ignore[arg-type]

    def _load(self, info: JobInfo) -> tuple[Operator | Reducer, Any]:
        spec = self._catalog.get(info.operator)
        if spec is None or spec.implementation is None:
            raise NotFound(f"No operator {info.operator} is installed here.")
        return load_operator(spec.implementation), spec.config.model_validate(info.config)

    def _run_each(
        self, org_id: OrgId, info: JobInfo, operator: Operator, config: Any, batch: list[Claimed]
    ) -> None:
        completions = []
        for claim, payload in zip(batch, self._payloads.build(batch), strict=True):
            try:
                result = operator.run(task_context(payload, config, now=self._clock.now()))
                completion = _completion(claim, info, result, payload)
            except Exception as error:
                self._fail(org_id, [claim], error)
                continue
            completions.append(completion)
        self._complete(org_id, completions)

    def _complete(self, org_id: OrgId, completions: Sequence[Completion]) -> None:
        if not completions:
            return
        for result in self._completions.complete(org_id, completions):
            if result.error is not None:
                logger.warning("control task %s: %s", result.task_id, result.error.code)

    def _reduce(
        self, org_id: OrgId, info: JobInfo, reducer: Reducer, config: Any, batch: list[Claimed]
    ) -> None:
        left = batch
        while left:
            try:
                with self._state.transaction("reduce") as tx:
                    failed, woke = self._reduce_in(tx, org_id, info, reducer, config, left)
            except _LeasesLost as lost:
                left = [claim for claim in left if claim.task_id in lost.kept]
                continue
            except Invalid as invalid:
                # What the batch wrote does not fit: find the task that is to blame.
                self._reduce_apart(org_id, info, reducer, config, left, invalid)
                return
            if woke:
                self._completions.wake_relay()
            for claim, error in failed:
                self._fail(org_id, [claim], error)
            return

    def _reduce_apart(
        self,
        org_id: OrgId,
        info: JobInfo,
        reducer: Reducer,
        config: Any,
        batch: list[Claimed],
        error: Invalid,
    ) -> None:
        if len(batch) == 1:
            self._fail(org_id, batch, error)
            return
        for claim in batch:
            self._reduce(org_id, info, reducer, config, [claim])

    def _reduce_in(
        self,
        tx: Transaction,
        org_id: OrgId,
        info: JobInfo,
        reducer: Reducer,
        config: Any,
        batch: list[Claimed],
    ) -> tuple[list[tuple[Claimed, Exception]], bool]:
        job_id = batch[0].job_id
        # Batches of one job take turns, so that keys which do not exist yet are safe too.
        tx.one(SQL["lock_source"], {"job_id": job_id})
        failed: list[tuple[Claimed, Exception]] = []
        keys: dict[UUID, list[str]] = {}
        for claim in batch:
            try:
                keys[claim.task_id] = reducer.keys(config, _event(claim))
            except Exception as error:
                failed.append((claim, error))
        wanted = sorted({key for each in keys.values() for key in each})
        rows = tx.all(SQL["lock_state"], {"job_id": job_id, "keys": wanted})
        states: dict[str, Any] = {row.key: row.value for row in rows}
        revisions = {row.key: row.revision for row in rows}
        changed: set[str] = set()
        completions = []
        for claim in batch:
            if claim.task_id not in keys:
                continue
            try:
                own = {key: states[key] for key in keys[claim.task_id] if key in states}
                reduction = reducer.reduce(config, own, _event(claim))
                events = _events(info, reduction.events)
            except Exception as error:
                failed.append((claim, error))
                continue
            states.update(reduction.states)
            changed.update(reduction.states)
            completions.append(_completed(claim, events))
        if changed:
            entries = [(key, revisions.get(key, 0), states[key]) for key in sorted(changed)]
            put_state(tx, job_id, entries, self._clock.now())
        woke = False
        if completions:
            done, woke = self._completions.complete_in(tx, org_id, completions)
            if len(done) < len(completions):
                raise _LeasesLost(done | {claim.task_id for claim, _ in failed})
        return failed, woke

    def _fail(self, org_id: OrgId, claims: Sequence[Claimed], error: Exception) -> None:
        retryable = error.retryable if isinstance(error, OperatorFailed) else True
        tail = "".join(traceback.format_exception(error))[-limits.ERROR_MESSAGE_MAX :]
        self._complete(
            org_id,
            [
                Completion(
                    **_fence(claim),
                    status="Failed",
                    error_code=type(error).__name__[:100],
                    error_message=str(error) if isinstance(error, OperatorFailed) else tail,
                    retryable=retryable,
                )
                for claim in claims
            ],
        )


def _event(claim: Claimed) -> Event:
    if claim.trigger is None:
        raise OperatorFailed("a reducer needs an event")
    trigger = claim.trigger
    return Event(trigger.scope, trigger.revision, source=str(trigger.dataset_version))


def _events(info: JobInfo, emits: Sequence[Emit]) -> list[EventIn]:
    outputs = {out.output_index: (out.dataset_uuid, out.dataset_version) for out in info.outputs}
    events = []
    for emit in emits:
        if emit.output_index not in outputs:
            raise OperatorFailed(f"the job has no output {emit.output_index}")
        dataset, version = outputs[emit.output_index]
        events.append(
            EventIn(
                dataset_uuid=dataset,
                dataset_version=version,
                revision=emit.revision,
                **emit.scope.fields(),
            )
        )
    return events


def _completed(claim: Claimed, events: list[EventIn]) -> Completion:
    # Its parts are checked; the limit of one request does not hold inside the platform, where a
    # split into thousands of chunks is still one completion.
    return Completion.model_construct(**_fence(claim), status="Completed", events=events)


def _completion(
    claim: Claimed, info: JobInfo, result: Result, payload: Mapping[str, Any]
) -> Completion:
    events = _events(info, result.events)
    if not info.is_source:
        return _completed(claim, events)
    revisions = {entry["key"]: entry["revision"] for entry in payload["state"]}
    return Completion.model_construct(
        **_fence(claim),
        status="Yielded",
        events=events,
        state=[
            StateEntry(key=key, revision=revisions.get(key, 0), value=value)
            for key, value in sorted(result.state.items())
        ],
        triggers_taken=list(result.requests_taken),
        resume_after_seconds=result.resume_after.total_seconds(),
    )


def _fence(claim: Claimed) -> dict[str, Any]:
    fence = claim.fence
    return {
        "task_id": fence.task_id,
        "attempt": fence.attempt,
        "lease_token": fence.lease_token,
    }
