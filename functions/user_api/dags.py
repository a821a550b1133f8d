"""DAGs: look at, pause, resume, ask, and let others call."""

from __future__ import annotations

from functions.user_api.api import Call, api, telemetry
from trace_core.http import identity_calls, pages, user_calls
from trace_core.http import work_answers as answers
from trace_core.http.answers import Answer
from trace_core.kernel.errors import Unauthenticated


@api.route("GET", "/v1/dags")
def dags(call: Call) -> answers.DagPage:
    query = call.query(pages.PageQuery)
    found = call.app.views.dags(call.principal.org_id)
    rows, following = pages.cut_whole(found, query, lambda row: str(row["name"]))
    return answers.DagPage(dags=rows, next=following)


@api.route("GET", "/v1/dags/<dag>")
def dag(call: Call) -> answers.DagDetail:
    return answers.DagDetail(**call.app.dag_views.dag(call.principal.org_id, call.path["dag"]))


@api.route("GET", "/v1/dags/<dag>/versions")
def versions(call: Call) -> answers.DagVersionPage:
    query = call.query(pages.PageQuery)
    found = call.app.dag_views.versions(
        call.principal.org_id,
        call.path["dag"],
        limit=query.limit + 1,
        before=pages.after_number(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: int(row["number"]))
    return answers.DagVersionPage(versions=rows, next=following)


@api.route("GET", "/v1/dags/<dag>/versions/<number>")
def version(call: Call) -> answers.DagVersionDetail:
    number = user_calls.version_number(call.path["number"])
    found = call.app.dag_views.version(call.principal.org_id, call.path["dag"], number)
    return answers.DagVersionDetail(**found)


@api.route("POST", "/v1/dags/<dag>/pause")
def pause(call: Call) -> answers.DagState:
    call.app.deploys.pause(call.principal.org_id, call.path["dag"], call.actor)
    return answers.DagState(dag=call.path["dag"], paused=True)


@api.route("POST", "/v1/dags/<dag>/resume")
def resume(call: Call) -> answers.DagState:
    call.app.deploys.resume(call.principal.org_id, call.path["dag"], call.actor)
    return answers.DagState(dag=call.path["dag"], paused=False)


@api.route("PUT", "/v1/dags/<dag>/deploy-roles")
def deploy_roles(call: Call) -> answers.DagRoles:
    name, roles = call.path["dag"], call.parse(identity_calls.DeployRoles).roles
    call.app.deploys.set_deploy_roles(call.principal.org_id, name, roles, call.actor)
    return answers.DagRoles(dag=name, deploy_roles=sorted(set(roles)))


@api.route("POST", "/v1/dags/<dag>/jobs/<job>/trigger")
def trigger(call: Call) -> Answer[answers.Asked]:
    name, job = call.path["dag"], call.path["job"]
    telemetry.keys(job=f"{name}.{job}")
    request = call.parse(user_calls.TriggerRequest).request
    number = call.app.requests.trigger(call.principal.org_id, name, job, request, call.actor)
    return Answer(202, answers.Asked(dag=name, job=job, number=number))


@api.route("POST", "/v1/hooks/<source_id>")
def receive(call: Call) -> Answer[answers.Received]:
    grant = call.principal.source
    if grant is None:
        raise Unauthenticated
    done = call.app.requests.receive(grant, call.parse(identity_calls.HookBody).root)
    return Answer(200 if done.repeated else 202, answers.Received(number=done.number))
