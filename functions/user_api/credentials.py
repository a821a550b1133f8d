"""Secrets, worker tokens and webhook secrets: what goes in, and what is shown once."""

from __future__ import annotations

from datetime import timedelta

from functions.user_api.api import Call, api
from trace_core.http import identity_calls
from trace_core.http.answers import Answer


@api.route("GET", "/v1/secrets")
def secrets(call: Call) -> object:
    return {"secrets": call.app.secret_writer.list(call.principal.org_id)}


@api.route("PUT", "/v1/secrets/<name>")
def set_secret(call: Call) -> object:
    name = call.path["name"]
    value = call.parse(identity_calls.SecretRequest).value.get_secret_value()
    created = call.app.secret_writer.set(call.principal.org_id, name, value, call.actor)
    return Answer(201 if created else 200, {"name": name, "created": created})


@api.route("DELETE", "/v1/secrets/<name>")
def remove_secret(call: Call) -> object:
    name = call.path["name"]
    call.app.secret_writer.remove(call.principal.org_id, name, call.actor)
    return {"name": name, "removed": True}


@api.route("GET", "/v1/worker-tokens")
def worker_tokens(call: Call) -> object:
    return {"worker_tokens": call.app.worker_tokens.list(call.principal.org_id)}


@api.route("POST", "/v1/worker-tokens")
def create_worker_token(call: Call) -> object:
    given = call.parse(identity_calls.WorkerTokenRequest)
    lifetime = timedelta(days=given.expires_in_days) if given.expires_in_days else None
    made = call.app.worker_tokens.create(call.principal.org_id, given.name, lifetime, call.actor)
    return Answer(201, {"token_id": made.token_id, "name": given.name, "token": made.token})


@api.route("DELETE", "/v1/worker-tokens/<token_id>")
def revoke_worker_token(call: Call) -> object:
    token_id = identity_calls.id_in_path(call.path["token_id"])
    call.app.worker_tokens.revoke(call.principal.org_id, token_id, call.actor)
    return {"token_id": token_id, "revoked": True}


@api.route("GET", "/v1/dags/<dag>/jobs/<job>/hook")
def hook(call: Call) -> object:
    return call.app.hooks.show(call.principal.org_id, call.path["dag"], call.path["job"])


@api.route("POST", "/v1/dags/<dag>/jobs/<job>/hook/secret")
def rotate_hook_secret(call: Call) -> object:
    dag, job = call.path["dag"], call.path["job"]
    made = call.app.hooks.rotate(call.principal.org_id, dag, job, call.actor)
    return Answer(
        201,
        {
            "path": f"/v1/hooks/{made.source_id}",
            "secret": made.secret,
            "former_until": made.former_until,
        },
    )
