"""Tokens to principals."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from trace_core.http.auth import Authenticator, RememberedWorkers
from trace_core.http.principal import Kind, Principal
from trace_core.kernel.errors import Unauthenticated
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


def test_a_check_that_answers_another_kind_lets_nobody_in() -> None:
    authenticator = Authenticator({Kind.USER: lambda _token: Principal(ORG, None, Kind.WORKER)})
    with pytest.raises(Unauthenticated):
        authenticator.principal(Kind.USER, {"authorization": "Bearer t"})


@pytest.mark.parametrize(
    "header",
    ["", "t", "Basic t", "Bearer", "Bearer ", "Bearer a b", "Bearer a, Bearer b", "Bearer é"],
)
def test_only_one_bearer_token_is_a_token(header: str) -> None:
    authenticator = Authenticator({Kind.USER: lambda _token: Principal(ORG, None, Kind.USER)})
    with pytest.raises(Unauthenticated):
        authenticator.principal(Kind.USER, {"authorization": header})
