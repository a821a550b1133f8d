"""What keeps the platform moving: status, outbox, queues, quotas, slots."""

from __future__ import annotations

from uuid import UUID

from functions.user_api.api import Call, api
from trace_core.http import pages, user_calls
from trace_core.http import work_answers as answers


@api.route("GET", "/v1/status")
def status(call: Call) -> answers.Status:
    return answers.Status(**call.app.views.status(call.principal.org_id))


@api.route("GET", "/v1/outbox")
def outbox(call: Call) -> answers.OutboxPage:
    query = call.query(user_calls.OutboxQuery)
    found = call.app.outbox_admin.rows(
        call.principal.org_id,
        status=query.status,
        kind=query.kind,
        target=query.target,
        limit=query.limit + 1,
        after=pages.after_id(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: UUID(int=row["outbox_id"].int))
    return answers.OutboxPage(rows=rows, next=following)


@api.route("POST", "/v1/outbox/reset")
def reset_outbox(call: Call) -> answers.OutboxDone:
    given = call.parse(user_calls.OutboxReset)
    done = call.app.outbox_admin.reset(call.principal.org_id, call.actor, **dict(given))
    return answers.OutboxDone(reset=done)


@api.route("GET", "/v1/queues")
def queues(call: Call) -> answers.Queues:
    return answers.Queues(queues=call.app.queue_admin.depths(call.principal.org_id))


@api.route("POST", "/v1/queues/<runtime>/redrive")
def redrive(call: Call) -> answers.Redriven:
    runtime, limit = call.path["runtime"], call.parse(user_calls.RedriveRequest).limit
    queue, moved = call.app.queue_admin.redrive(
        call.principal.org_id, runtime, limit, call.actor
    )  # fmt: skip
    return answers.Redriven(queue=queue, moved=moved)


@api.route("GET", "/v1/quotas")
def quotas(call: Call) -> answers.Counters:
    return answers.Counters(counters=call.app.quotas.counters(call.principal.org_id))


@api.route("POST", "/v1/quotas")
def set_quota(call: Call) -> answers.Quota:
    given = dict(call.parse(user_calls.QuotaRequest))
    call.app.quotas.set_quota(call.principal.org_id, call.actor, **given)
    return answers.Quota(**given)


@api.route("POST", "/v1/quotas/clear")
def clear_quota(call: Call) -> answers.QuotaCleared:
    done = call.app.quotas.clear_quota(call.principal.org_id, call.actor)
    return answers.QuotaCleared(cleared=done)


@api.route("GET", "/v1/slots")
def slots(call: Call) -> answers.Slots:
    dag = call.query(user_calls.SlotsQuery).dag
    return answers.Slots(slots=call.app.slots.list(call.principal.org_id, dag))


@api.route("POST", "/v1/dags/<dag>/pools/<pool>/slots/<slot>/release")
def release_slot(call: Call) -> answers.SlotReleased:
    dag, pool, slot = (call.path[name] for name in ("dag", "pool", "slot"))
    done = call.app.slots.release(call.principal.org_id, dag, pool, slot, call.actor)
    return answers.SlotReleased(released=done)
