"""Jobs read datasets of other DAGs with the rights of whoever deployed them, for as long as they
have them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import World
from tests.postgres.test_other_dags import READER, shared
from tests.postgres.test_rebuild import fed, settle
from trace_core.identity.model import SYSTEM, Actor, ActorKind, PlatformRole
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import UserId
from trace_core.registry.read_rights import ReadRights
from trace_core.tasks.claim import Refused
from trace_core.tasks.model import NotClaimed

__all__ = ["fed", "shared"]


@pytest.fixture
def rights(world: World) -> ReadRights:
    return ReadRights(world.state, world.clock, world.ids)


def writer(world: World, *roles: str) -> Actor:
    """A member who may deploy DAGs of their own."""
    user_id = UserId(world.ids.uuid())
    for statement in (
        "INSERT INTO users (user_id, issuer, subject, created_at)"
        " VALUES (%(user)s, 'test', %(user)s::text, %(now)s)",
        "INSERT INTO memberships (org_id, user_id, platform_role, created_at)"
        " VALUES (%(org)s, %(user)s, 'writer', %(now)s)",
    ):
        params = {"user": user_id, "org": world.org, "now": world.clock.now()}
        world.state.write("test", statement, params)
    for role in roles:
        for statement in (
            "INSERT INTO org_roles (org_id, role, created_at) VALUES (%(org)s, %(role)s, %(now)s)",
            "INSERT INTO member_roles (org_id, user_id, role) VALUES (%(org)s, %(user)s, %(role)s)",
        ):
            params = {"user": user_id, "org": world.org, "now": world.clock.now(), "role": role}
            world.state.write("test", statement, params)
    return Actor(ActorKind.USER, str(user_id), user_id, PlatformRole.WRITER, frozenset(roles))


def test_a_deploy_that_reads_what_its_deployer_may_not_is_refused(
    shared: tuple[World, Any],
) -> None:
    world, _ = shared
    with pytest.raises(Invalid, match="that you may read"):
        world.deploys.deploy(world.org, READER, "reader.yaml", writer(world))
    assert world.rows("SELECT count(*) AS n FROM dags")[0].n == 1


def test_a_revoked_right_stops_claims_and_says_so_and_a_new_grant_lets_them_go_on(
    shared: tuple[World, Any], rights: ReadRights
) -> None:
    world, _ = shared
    actor = writer(world, "analysts")
    rights.set_read_roles(world.org, "numbers", ["analysts"], SYSTEM)
    world.deploys.deploy(world.org, READER, "reader.yaml", actor)
    world.builds.run_once()
    rights.set_read_roles(world.org, "numbers", [], SYSTEM)
    assert world.claim(50) == []
    (row, *_) = world.rows("SELECT task_id FROM ready")
    assert world.claims.claim_ids(world.org, [row.task_id], "w") == [
        Refused(row.task_id, NotClaimed.FORBIDDEN)
    ]
    assert world.views.backlog().jobs_forbidden == 1
    rights.set_read_roles(world.org, "numbers", ["analysts"], SYSTEM)
    assert world.views.backlog().jobs_forbidden == 0
    assert len(settle(world)) == 10
