"""Who may do what, decided without a database."""

from __future__ import annotations

from uuid import UUID

import pytest

from trace_core.identity.model import SYSTEM, Actor, ActorKind, PlatformRole
from trace_core.kernel.errors import Forbidden
from trace_core.kernel.ids import UserId

READER, WRITER, ADMIN = PlatformRole
ADA, BOB = UserId(UUID(int=1)), UserId(UUID(int=2))


def actor(role: PlatformRole | None, *org_roles: str) -> Actor:
    return Actor(ActorKind.USER, str(ADA), ADA, role, frozenset(org_roles))


def test_each_role_covers_those_before_it() -> None:
    found = [[has.covers(needed) for needed in PlatformRole] for has in PlatformRole]
    assert found == [[True, False, False], [True, True, False], [True, True, True]]


@pytest.mark.parametrize(
    ("who", "creator", "deploy_roles", "may"),
    [
        (actor(ADMIN), BOB, [], True),
        (actor(WRITER), ADA, [], True),
        (actor(WRITER), BOB, [], False),
        (actor(WRITER), None, [], False),
        (actor(WRITER, "ops"), BOB, [], False),
        (actor(WRITER, "ops"), BOB, ["ops"], True),
        (actor(WRITER, "ops"), BOB, ["data", "chain"], False),
        (actor(WRITER), BOB, ["ops"], False),
        # Whoever made it and may now only read has lost it.
        (actor(READER), ADA, [], False),
        (actor(READER, "ops"), ADA, ["ops"], False),
        (actor(None, "ops"), ADA, ["ops"], False),
        (SYSTEM, BOB, [], True),
        (Actor(ActorKind.USER, "x", None, WRITER), None, [], False),
    ],
)
def test_who_may_deploy(
    who: Actor, creator: UserId | None, deploy_roles: list[str], may: bool
) -> None:
    assert who.may_deploy(creator, deploy_roles) is may
    if not may:
        with pytest.raises(Forbidden):
            who.require_deploy_right("chain", creator, deploy_roles)
