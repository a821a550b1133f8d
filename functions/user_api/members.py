"""Members, roles and the audit."""

from __future__ import annotations

from uuid import UUID

from functions.user_api.api import Call, api
from trace_core.http import identity_answers as answers
from trace_core.http import identity_calls, pages
from trace_core.http.answers import Answer
from trace_core.kernel.ids import UserId


@api.route("GET", "/v1/me")
def me(call: Call) -> answers.Me:
    who = call.principal
    return answers.Me(
        org_id=who.org_id,
        user_id=who.user_id,
        role=who.platform_role,
        org_roles=sorted(who.org_roles),
    )


@api.route("GET", "/v1/members")
def members(call: Call) -> answers.MemberPage:
    query = call.query(pages.PageQuery)
    found = call.app.members.list(call.principal.org_id)
    # Two issuers may call two people the same.
    rows, following = pages.cut_whole(
        found, query, lambda row: f"{row['subject']} {row['user_id']}"
    )
    return answers.MemberPage(members=rows, next=following)


@api.route("POST", "/v1/members")
def add_member(call: Call) -> Answer[answers.MemberAdded]:
    given = call.parse(identity_calls.MemberRequest)
    who = call.app.subject(given.subject)
    user_id = call.app.members.add(
        call.principal.org_id, who, given.role, given.name, call.actor
    )  # fmt: skip
    body = answers.MemberAdded(user_id=user_id, subject=given.subject, role=given.role)
    return Answer(201, body)


@api.route("PUT", "/v1/members/<user_id>")
def set_role(call: Call) -> answers.MemberState:
    role, user_id = call.parse(identity_calls.MemberRole).role, _user_id(call)
    call.app.members.set_role(call.principal.org_id, user_id, role, call.actor)
    return answers.MemberState(user_id=user_id, role=role)


@api.route("DELETE", "/v1/members/<user_id>")
def remove_member(call: Call) -> answers.MemberRemoved:
    user_id = _user_id(call)
    call.app.members.remove(call.principal.org_id, user_id, call.actor)
    return answers.MemberRemoved(user_id=user_id, removed=True)


@api.route("GET", "/v1/roles")
def roles(call: Call) -> answers.RolePage:
    query = call.query(pages.PageQuery)
    found = call.app.members.roles(call.principal.org_id)
    rows, following = pages.cut_whole(found, query, lambda row: str(row["role"]))
    return answers.RolePage(roles=rows, next=following)


@api.route("POST", "/v1/roles")
def add_role(call: Call) -> Answer[answers.RoleAdded]:
    role = call.parse(identity_calls.RoleRequest).role
    added = call.app.members.add_role(call.principal.org_id, role, call.actor)
    return Answer(201 if added else 200, answers.RoleAdded(role=role, added=added))


@api.route("DELETE", "/v1/roles/<role>")
def remove_role(call: Call) -> answers.RoleRemoved:
    call.app.members.remove_role(call.principal.org_id, call.path["role"], call.actor)
    return answers.RoleRemoved(role=call.path["role"], removed=True)


@api.route("PUT", "/v1/roles/<role>/members/<user_id>")
def grant(call: Call) -> answers.RoleGrant:
    role, user_id = call.path["role"], _user_id(call)
    call.app.members.grant(call.principal.org_id, role, user_id, call.actor)
    return answers.RoleGrant(role=role, user_id=user_id, granted=True)


@api.route("DELETE", "/v1/roles/<role>/members/<user_id>")
def revoke(call: Call) -> answers.RoleGrant:
    role, user_id = call.path["role"], _user_id(call)
    call.app.members.revoke(call.principal.org_id, role, user_id, call.actor)
    return answers.RoleGrant(role=role, user_id=user_id, granted=False)


@api.route("GET", "/v1/audit")
def audit(call: Call) -> answers.AuditPage:
    query = call.query(identity_calls.AuditQuery)
    found = call.app.audit.entries(
        call.principal.org_id,
        actor=query.actor,
        action=query.action,
        target=query.target,
        since=query.since,
        limit=query.limit + 1,
        before=pages.after_id(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: UUID(int=row["audit_id"].int))
    return answers.AuditPage(entries=rows, next=following)


def _user_id(call: Call) -> UserId:
    return UserId(identity_calls.id_in_path(call.path["user_id"]))
