"""Secrets, worker tokens and webhook secrets: what goes in, and what is shown once."""

from __future__ import annotations

from datetime import timedelta

from functions.user_api.api import Call, api
from trace_core.http import identity_answers as answers
from trace_core.http import identity_calls, pages
from trace_core.http.answers import Answer


@api.route("GET", "/v1/secrets")
def secrets(call: Call) -> answers.SecretPage:
    query = call.query(pages.PageQuery)
    found = call.app.secret_writer.list(call.principal.org_id)
    rows, following = pages.cut_whole(found, query, lambda row: str(row["name"]))
    return answers.SecretPage(secrets=rows, next=following)


@api.route("PUT", "/v1/secrets/<name>")
def set_secret(call: Call) -> Answer[answers.SecretWritten]:
    name = call.path["name"]
    value = call.parse(identity_calls.SecretRequest).value.get_secret_value()
    created = call.app.secret_writer.set(call.principal.org_id, name, value, call.actor)
    return Answer(201 if created else 200, answers.SecretWritten(name=name, created=created))


@api.route("DELETE", "/v1/secrets/<name>")
def remove_secret(call: Call) -> answers.SecretRemoved:
    name = call.path["name"]
    call.app.secret_writer.remove(call.principal.org_id, name, call.actor)
    return answers.SecretRemoved(name=name, removed=True)


@api.route("GET", "/v1/worker-tokens")
def worker_tokens(call: Call) -> answers.WorkerTokenPage:
    query = call.query(pages.PageQuery)
    found = call.app.worker_tokens.list(call.principal.org_id)
    rows, following = pages.cut_whole(found, query, lambda row: f"{row['name']} {row['token_id']}")
    return answers.WorkerTokenPage(worker_tokens=rows, next=following)


@api.route("POST", "/v1/worker-tokens")
def create_worker_token(call: Call) -> Answer[answers.WorkerTokenMade]:
    given = call.parse(identity_calls.WorkerTokenRequest)
    lifetime = timedelta(days=given.expires_in_days) if given.expires_in_days else None
    made = call.app.worker_tokens.create(call.principal.org_id, given.name, lifetime, call.actor)
    body = answers.WorkerTokenMade(token_id=made.token_id, name=given.name, token=made.token)
    return Answer(201, body)


@api.route("DELETE", "/v1/worker-tokens/<token_id>")
def revoke_worker_token(call: Call) -> answers.WorkerTokenRevoked:
    token_id = identity_calls.id_in_path(call.path["token_id"])
    call.app.worker_tokens.revoke(call.principal.org_id, token_id, call.actor)
    return answers.WorkerTokenRevoked(token_id=token_id, revoked=True)


@api.route("GET", "/v1/dags/<dag>/jobs/<job>/hook")
def hook(call: Call) -> answers.Hook:
    found = call.app.hooks.show(call.principal.org_id, call.path["dag"], call.path["job"])
    return answers.Hook(**found)


@api.route("POST", "/v1/dags/<dag>/jobs/<job>/hook/secret")
def rotate_hook_secret(call: Call) -> Answer[answers.HookSecret]:
    dag, job = call.path["dag"], call.path["job"]
    made = call.app.hooks.rotate(call.principal.org_id, dag, job, call.actor)
    body = answers.HookSecret(
        path=f"/v1/hooks/{made.source_id}", secret=made.secret, former_until=made.former_until
    )
    return Answer(201, body)
