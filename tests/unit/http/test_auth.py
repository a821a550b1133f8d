"""Tokens to principals."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from trace_core.http.auth import Authenticator, Presented, RememberedWorkers, bearer
from trace_core.http.principal import Kind, Principal
from trace_core.http.routes import Route, Surface
from trace_core.identity.model import PlatformRole
from trace_core.kernel.errors import Forbidden, Unauthenticated
from trace_core.kernel.ids import OrgId

ORG = OrgId(UUID(int=7))
MEMORY = timedelta(seconds=10)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_good_worker_token_is_remembered_for_a_moment_only() -> None:
    asked: list[str] = []
    clock = Clock()

    def org_of(token: str) -> OrgId:
        asked.append(token)
        if len(asked) > 2:
            raise Unauthenticated
        return ORG

    workers = RememberedWorkers(org_of, MEMORY, clock)
    assert workers("t") == workers("t") == Principal(ORG, None, Kind.WORKER)
    assert asked == ["t"]
    clock.now = 9.9
    workers("t")
    assert asked == ["t"]
    clock.now = 10.0
    workers("t")
    clock.now = 20.0
    with pytest.raises(Unauthenticated):
        workers("t")


def test_a_bad_worker_token_is_asked_about_each_time() -> None:
    asked: list[str] = []

    def org_of(token: str) -> OrgId:
        asked.append(token)
        raise Unauthenticated

    workers = RememberedWorkers(org_of, MEMORY)
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            workers("bad")
    assert len(asked) == 3


READ = Route(Surface.USER, "GET", "/v1/x", Kind.USER, PlatformRole.READER, "Read.")
WRITE = Route(Surface.USER, "POST", "/v1/x", Kind.USER, PlatformRole.WRITER, "Write.")
CLAIM = Route(Surface.INTERNAL, "POST", "/internal/x", Kind.WORKER, None, "Claim.")


def shown(authorization: str = "Bearer t", request_id: str | None = None) -> Presented:
    return Presented({"authorization": authorization}, {}, lambda: b"", request_id)


def answering(principal: Principal) -> Authenticator:
    """Whatever the route asks for, the check answers that principal."""
    return Authenticator(dict.fromkeys(Kind, bearer(lambda _token: principal)))


def test_a_check_that_answers_another_kind_lets_nobody_in() -> None:
    with pytest.raises(Unauthenticated):
        answering(Principal(ORG, None, Kind.WORKER)).admit(READ, shown())
    reader = Principal(ORG, None, Kind.USER, platform_role=PlatformRole.ADMIN)
    with pytest.raises(Unauthenticated):
        answering(reader).admit(CLAIM, shown())


def test_a_kind_without_a_check_lets_nobody_in() -> None:
    with pytest.raises(Unauthenticated):
        Authenticator({}).admit(CLAIM, shown())


def test_a_user_without_a_role_or_with_a_lesser_one_is_forbidden() -> None:
    for role in (None, PlatformRole.READER):
        with pytest.raises(Forbidden):
            answering(Principal(ORG, None, Kind.USER, platform_role=role)).admit(WRITE, shown())
    for role in (PlatformRole.WRITER, PlatformRole.ADMIN):
        admitted = answering(Principal(ORG, None, Kind.USER, platform_role=role))
        assert admitted.admit(WRITE, shown(request_id="r-1")) == Principal(
            ORG, None, Kind.USER, platform_role=role, request_id="r-1"
        )


def test_a_route_for_users_without_a_role_cannot_be_declared_and_others_have_none() -> None:
    with pytest.raises(ValueError, match="role"):
        Route(Surface.USER, "GET", "/v1/x", Kind.USER, None, "Read.")
    for kind in set(Kind) - {Kind.USER}:
        with pytest.raises(ValueError, match="role"):
            Route(Surface.USER, "GET", "/v1/x", kind, PlatformRole.READER, "Read.")


@pytest.mark.parametrize(
    "header",
    ["", "t", "Basic t", "Bearer", "Bearer ", "Bearer a b", "Bearer a, Bearer b", "Bearer é"],
)
def test_only_one_bearer_token_is_a_token(header: str) -> None:
    with pytest.raises(Unauthenticated):
        answering(Principal(ORG, None, Kind.WORKER)).admit(CLAIM, shown(header))
