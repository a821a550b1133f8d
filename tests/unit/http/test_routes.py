"""Every route of every API: declared once, for one kind of principal, and registered."""

from __future__ import annotations

from collections import Counter

import pytest

from functions.internal_api.handler import api as internal_api
from functions.task_api.handler import api as task_api
from functions.user_api.handler import api as user_api
from trace_core.http.principal import Kind
from trace_core.http.routes import ROUTES, Route, Surface, route
from trace_core.identity.model import PlatformRole

APIS = {Surface.INTERNAL: internal_api, Surface.TASK: task_api, Surface.USER: user_api}


def test_every_declared_route_is_registered_and_no_other() -> None:
    registered = [each for api in APIS.values() for each in api.routes]
    assert Counter(registered) == Counter(ROUTES)


@pytest.mark.parametrize("declared", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_a_route_belongs_to_one_surface_and_admits_the_kinds_of_it_only(declared: Route) -> None:
    same = [each for each in ROUTES if (each.method, each.path) == (declared.method, declared.path)]
    assert same == [declared]
    if declared.path.startswith("/internal/"):
        allowed = {Kind.WORKER, Kind.NOBODY}
    elif declared.path.startswith("/v1/task/"):
        allowed = {Kind.TASK, Kind.START}
    elif declared.path.startswith("/v1/hooks/"):
        allowed = {Kind.SOURCE}
    elif declared.path == "/v1/openapi.json":
        allowed = {Kind.NOBODY}
    else:
        allowed = {Kind.USER}
    assert declared.kind in allowed


def test_only_keys_and_documents_are_open_and_only_the_exchange_goes_without_a_token() -> None:
    open_routes = {each.path for each in ROUTES if each.kind in (Kind.NOBODY, Kind.START)}
    assert open_routes == {"/internal/jwks/task", "/v1/openapi.json", "/v1/task/start"}


def test_the_task_api_offers_neither_claim_nor_fetch() -> None:
    paths = [each.path for each in ROUTES if each.surface is Surface.TASK]
    assert not [path for path in paths if "claim" in path or "fetch" in path]


def test_a_route_that_is_not_declared_cannot_be_registered() -> None:
    with pytest.raises(LookupError):
        route(Surface.USER, "POST", "/internal/task-claim")


@pytest.mark.parametrize("declared", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_a_route_says_what_it_does_and_what_a_user_must_be(declared: Route) -> None:
    assert declared.summary.endswith(".")
    assert (declared.role is not None) is (declared.kind is Kind.USER)
    if declared.kind is Kind.USER and declared.method != "GET":
        # Whoever may only read changes nothing.
        assert declared.role is not PlatformRole.READER


def test_members_roles_tokens_and_the_audit_are_for_administrators() -> None:
    for each in ROUTES:
        changes = each.method != "GET"
        if each.path.startswith(("/v1/members", "/v1/roles")) and changes:
            assert each.role is PlatformRole.ADMIN, each
        if each.path.startswith(("/v1/audit", "/v1/worker-tokens")):
            assert each.role is PlatformRole.ADMIN, each
