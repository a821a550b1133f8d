"""Members, roles and the audit."""

from __future__ import annotations

from functions.user_api.api import Call, api
from trace_core.http import identity_calls
from trace_core.http.answers import Answer
from trace_core.kernel.ids import UserId


@api.route("GET", "/v1/me")
def me(call: Call) -> object:
    who = call.principal
    return {
        "org_id": who.org_id,
        "user_id": who.user_id,
        "role": who.platform_role,
        "org_roles": sorted(who.org_roles),
    }


@api.route("GET", "/v1/members")
def members(call: Call) -> object:
    return {"members": call.app.members.list(call.principal.org_id)}


@api.route("POST", "/v1/members")
def add_member(call: Call) -> object:
    given = call.parse(identity_calls.MemberRequest)
    who = call.app.subject(given.subject)
    user_id = call.app.members.add(
        call.principal.org_id, who, given.role, given.name, call.actor
    )  # fmt: skip
    return Answer(201, {"user_id": user_id, "subject": given.subject, "role": given.role})


@api.route("PUT", "/v1/members/<user_id>")
def set_role(call: Call) -> object:
    role, user_id = call.parse(identity_calls.MemberRole).role, _user_id(call)
    call.app.members.set_role(call.principal.org_id, user_id, role, call.actor)
    return {"user_id": user_id, "role": role}


@api.route("DELETE", "/v1/members/<user_id>")
def remove_member(call: Call) -> object:
    user_id = _user_id(call)
    call.app.members.remove(call.principal.org_id, user_id, call.actor)
    return {"user_id": user_id, "removed": True}


@api.route("GET", "/v1/roles")
def roles(call: Call) -> object:
    return {"roles": call.app.members.roles(call.principal.org_id)}


@api.route("POST", "/v1/roles")
def add_role(call: Call) -> object:
    role = call.parse(identity_calls.RoleRequest).role
    added = call.app.members.add_role(call.principal.org_id, role, call.actor)
    return Answer(201 if added else 200, {"role": role, "added": added})


@api.route("DELETE", "/v1/roles/<role>")
def remove_role(call: Call) -> object:
    call.app.members.remove_role(call.principal.org_id, call.path["role"], call.actor)
    return {"role": call.path["role"], "removed": True}


@api.route("PUT", "/v1/roles/<role>/members/<user_id>")
def grant(call: Call) -> object:
    role, user_id = call.path["role"], _user_id(call)
    call.app.members.grant(call.principal.org_id, role, user_id, call.actor)
    return {"role": role, "user_id": user_id, "granted": True}


@api.route("DELETE", "/v1/roles/<role>/members/<user_id>")
def revoke(call: Call) -> object:
    role, user_id = call.path["role"], _user_id(call)
    call.app.members.revoke(call.principal.org_id, role, user_id, call.actor)
    return {"role": role, "user_id": user_id, "granted": False}


@api.route("GET", "/v1/audit")
def audit(call: Call) -> object:
    query = call.query(identity_calls.AuditQuery)
    return {"entries": call.app.audit.entries(call.principal.org_id, **dict(query))}


def _user_id(call: Call) -> UserId:
    return UserId(identity_calls.id_in_path(call.path["user_id"]))
