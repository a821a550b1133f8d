"""Deploys: plan, apply, watch, let rest, give up, roll back; and backfills of one job."""

from __future__ import annotations

from typing import Any

from functions.user_api.api import Call, api, telemetry
from trace_core.http import deploy_answers as answers
from trace_core.http import pages, user_calls
from trace_core.http.answers import Answer


@api.route("POST", "/v1/plans")
def plan(call: Call) -> answers.Planned:
    given = call.parse(user_calls.PlanRequest)
    made = call.app.plans.plan(call.principal.org_id, given.text, given.filename, call.actor)
    return answers.Planned(**made.to_json())


@api.route("POST", "/v1/dags")
def deploy(call: Call) -> Answer[answers.Deployed]:
    org_id, given = call.principal.org_id, call.parse(user_calls.DeployRequest)
    done = call.app.deploys.deploy(
        org_id,
        given.text,
        given.filename,
        call.actor,
        expected_state=given.expected_state,
        concurrency=given.concurrency,
    )
    body = answers.Deployed(
        dag=done.dag,
        version=done.version,
        created=done.created,
        jobs=list(done.jobs),
        webhooks=list(done.webhooks),
        deploy=done.deploy,
        status=done.status,
        builds=list(done.builds),
    )
    return Answer(201 if done.created else 200, body)


@api.route("GET", "/v1/dags/<dag>/deploys")
def deploys(call: Call) -> answers.DeployPage:
    query = call.query(pages.PageQuery)
    found = call.app.deploy_views.deploys(
        call.principal.org_id,
        call.path["dag"],
        limit=query.limit + 1,
        before=pages.after_number(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, _number)
    return answers.DeployPage(deploys=rows, next=following)


@api.route("GET", "/v1/dags/<dag>/deploys/<number>")
def deploy_detail(call: Call) -> answers.DeployDetail:
    number = user_calls.version_number(call.path["number"])
    found = call.app.deploy_views.deploy(call.principal.org_id, call.path["dag"], number)
    checks = [
        answers.Verdict(
            dataset=str(each.get("dataset", "")),
            holds=bool(each["holds"]),
            message=str(each.get("message", "")),
            examples=list(each.get("examples", ())),
        )
        for each in found["checks"]
    ]
    return answers.DeployDetail(**found | {"checks": checks})


@api.route("POST", "/v1/dags/<dag>/deploys/pause")
def pause_deploy(call: Call) -> answers.DeployState:
    return _set_paused(call, paused=True)


@api.route("POST", "/v1/dags/<dag>/deploys/resume")
def resume_deploy(call: Call) -> answers.DeployState:
    return _set_paused(call, paused=False)


@api.route("POST", "/v1/dags/<dag>/deploys/cancel")
def cancel_deploy(call: Call) -> answers.DeployState:
    dag = call.path["dag"]
    number = call.app.deploys.cancel_deploy(call.principal.org_id, dag, call.actor)
    return answers.DeployState(dag=dag, deploy=number, status="Canceled")


def _set_paused(call: Call, *, paused: bool) -> answers.DeployState:
    dag = call.path["dag"]
    number = call.app.deploys.set_deploy_paused(
        call.principal.org_id, dag, call.actor, paused=paused
    )
    return answers.DeployState(dag=dag, deploy=number, status="Paused" if paused else "Building")


@api.route("GET", "/v1/dags/<dag>/rollback")
def rollback_preview(call: Call) -> answers.RollbackPreview:
    version = call.query(user_calls.RollbackQuery).version
    found = call.app.deploy_views.rollback(call.principal.org_id, call.path["dag"], version)
    return answers.RollbackPreview(**found)


@api.route("POST", "/v1/dags/<dag>/rollback")
def rollback(call: Call) -> answers.RolledBack:
    org_id, dag = call.principal.org_id, call.path["dag"]
    version = call.parse(user_calls.RollbackRequest).version
    done = call.app.deploys.rollback(org_id, dag, call.actor, version=version)
    shown = call.app.deploy_views.deploy(org_id, dag, done.deploy)
    return answers.RolledBack(
        dag=dag,
        deploy=done.deploy,
        from_version=shown["from_version"],
        version=done.version,
        restored=shown["moved"],
        behind=dict(done.behind),
        canceled=dict(done.canceled),
        deliveries=[],
    )


@api.route("POST", "/v1/dags/<dag>/jobs/<job>/backfills")
def begin_backfill(call: Call) -> Answer[answers.BackfillBegun]:
    dag, job = call.path["dag"], call.path["job"]
    telemetry.keys(job=f"{dag}.{job}")
    given = call.parse(user_calls.BackfillRequest)
    begun = call.app.backfills.begin(
        call.principal.org_id,
        dag,
        job,
        given.start,
        given.end,
        call.actor,
        reason=given.reason,
        window=given.window,
    )
    body = answers.BackfillBegun(dag=dag, job=job, number=begun.number, scopes=begun.scopes)
    return Answer(201, body)


@api.route("GET", "/v1/dags/<dag>/backfills")
def backfills(call: Call) -> answers.BackfillPage:
    query = call.query(pages.PageQuery)
    org_id, dag = call.principal.org_id, call.path["dag"]
    before = pages.after_number(query.cursor)
    found = call.app.backfills.list(org_id, dag, limit=query.limit + 1, before=before)
    if not found:
        call.app.deploy_views.require_dag(org_id, dag)
    rows, following = pages.cut(found, query.limit, _number)
    return answers.BackfillPage(backfills=[_backfill(row) for row in rows], next=following)


@api.route("POST", "/v1/dags/<dag>/backfills/<number>/pause")
def pause_backfill(call: Call) -> answers.BackfillState:
    dag, number = call.path["dag"], user_calls.version_number(call.path["number"])
    call.app.backfills.pause(call.principal.org_id, dag, number, call.actor)
    return answers.BackfillState(dag=dag, number=number, status="Paused", canceled=0)


@api.route("POST", "/v1/dags/<dag>/backfills/<number>/resume")
def resume_backfill(call: Call) -> answers.BackfillState:
    dag, number = call.path["dag"], user_calls.version_number(call.path["number"])
    call.app.backfills.resume(call.principal.org_id, dag, number, call.actor)
    return answers.BackfillState(dag=dag, number=number, status="Running", canceled=0)


@api.route("POST", "/v1/dags/<dag>/backfills/<number>/cancel")
def cancel_backfill(call: Call) -> answers.BackfillState:
    dag, number = call.path["dag"], user_calls.version_number(call.path["number"])
    canceled = call.app.backfills.cancel(call.principal.org_id, dag, number, call.actor)
    return answers.BackfillState(dag=dag, number=number, status="Canceled", canceled=canceled)


def _number(row: dict[str, Any]) -> int:
    return int(row["number"])


def _backfill(row: dict[str, Any]) -> answers.Backfill:
    names = {"range_start": "start", "range_end": "end", "window_size": "window"}
    shown = {names.get(name, name): value for name, value in row.items() if name != "backfill_id"}
    return answers.Backfill(**shown)
