"""The wall between principals: each against every route, and forgeries of each against one.

The table below says by hand who may call what, so that a slip in `ROUTES` does not pass for an
intention. Every request is good enough to be let in and too empty to change anything.
"""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.lite_app import stored
from tests.postgres.served import Reply
from tests.postgres.wall import Wall, forged_calls, forged_worker_tokens
from tests.postgres_server import PostgresServer
from trace_core import telemetry
from trace_core.http.answers import refusal
from trace_core.http.routes import ROUTES, Surface
from trace_core.kernel.errors import Forbidden, Unauthenticated

NO_ID = "00000000-0000-7000-8000-000000000000"
UNAUTHENTICATED = refusal(Unauthenticated()).text()
FORBIDDEN = refusal(Forbidden()).text()

# Method, path, who may call it, and what the empty request is answered once it is let in.
TABLE = """
POST   /internal/task-claim                 worker  422
GET    /internal/task-fetch                 worker  422
GET    /internal/wake-ups                   worker  200
POST   /internal/heartbeat                  worker  422
POST   /internal/task-inputs                worker  422
POST   /internal/events                     worker  422
POST   /internal/task-complete              worker  422
GET    /internal/jwks/task                  anybody 200
POST   /v1/task/start                       anybody 422
POST   /v1/task/heartbeat                   task    422
POST   /v1/task/events                      task    422
POST   /v1/task/inputs                      task    422
POST   /v1/task/complete                    task    422
POST   /v1/task/logs                        task    422
POST   /v1/task/credentials                 task    422
GET    /v1/openapi.json                     anybody 200
GET    /v1/me                               reader  200
GET    /v1/status                           reader  200
GET    /v1/dags                             reader  200
GET    /v1/dags/<dag>                       reader  404
GET    /v1/dags/<dag>/versions              reader  404
GET    /v1/dags/<dag>/versions/<number>     reader  404
POST   /v1/dags/<dag>/pause                 writer  404
POST   /v1/dags/<dag>/resume                writer  404
PUT    /v1/dags/<dag>/deploy-roles          admin   422
POST   /v1/dags/<dag>/jobs/<job>/trigger    writer  404
GET    /v1/dags/<dag>/jobs/<job>/hook       reader  404
POST   /v1/dags/<dag>/jobs/<job>/hook/secret  writer  404
POST   /v1/plans                            writer  422
POST   /v1/dags                             writer  422
GET    /v1/dags/<dag>/deploys               reader  404
GET    /v1/dags/<dag>/deploys/<number>      reader  404
POST   /v1/dags/<dag>/deploys/pause         writer  404
POST   /v1/dags/<dag>/deploys/resume        writer  404
POST   /v1/dags/<dag>/deploys/cancel        writer  404
GET    /v1/dags/<dag>/rollback              reader  404
POST   /v1/dags/<dag>/rollback              writer  404
POST   /v1/dags/<dag>/jobs/<job>/backfills  writer  422
GET    /v1/dags/<dag>/backfills             reader  404
POST   /v1/dags/<dag>/backfills/<number>/pause   writer  404
POST   /v1/dags/<dag>/backfills/<number>/resume  writer  404
POST   /v1/dags/<dag>/backfills/<number>/cancel  writer  404
GET    /v1/tasks                            reader  200
GET    /v1/tasks/<task_id>                  reader  404
GET    /v1/tasks/<task_id>/attempts         reader  404
GET    /v1/tasks/<task_id>/logs             reader  404
POST   /v1/tasks/<task_id>/cancel           writer  404
POST   /v1/tasks/<task_id>/retry            writer  404
GET    /v1/events                           reader  200
GET    /v1/datasets                         reader  200
GET    /v1/datasets/<dataset>               reader  404
GET    /v1/datasets/<dataset>/versions      reader  404
GET    /v1/datasets/<dataset>/partitions    reader  404
PUT    /v1/datasets/<dataset>/read-roles    admin   422
PUT    /v1/datasets/<dataset>/owner         admin   422
GET    /v1/datasets/<dataset>/snapshots     reader  404
POST   /v1/datasets/<dataset>/snapshots     writer  422
DELETE /v1/datasets/<dataset>/snapshots/<snapshot>  writer  404
GET    /v1/datasets/<dataset>/head          reader  404
GET    /v1/datasets/<dataset>/verify        reader  404
GET    /v1/datasets/<dataset>/purge-preview  admin   404
POST   /v1/datasets/<dataset>/purge         admin   422
POST   /v1/datasets/<dataset>/purge/cancel  admin   422
GET    /v1/datasets/<dataset>/lineage       reader  404
GET    /v1/datasets/<dataset>/invalidations  reader  404
POST   /v1/datasets/<dataset>/invalidations  writer  422
GET    /v1/storage                          reader  200
GET    /v1/outbox                           reader  200
POST   /v1/outbox/reset                     admin   200
GET    /v1/queues                           reader  200
POST   /v1/queues/<runtime>/redrive         admin   404
GET    /v1/slots                            reader  200
POST   /v1/dags/<dag>/pools/<pool>/slots/<slot>/release  writer  404
GET    /v1/quotas                           reader  200
POST   /v1/quotas                           admin   422
POST   /v1/quotas/clear                     admin   200
GET    /v1/members                          reader  200
POST   /v1/members                          admin   422
PUT    /v1/members/<user_id>                admin   422
DELETE /v1/members/<user_id>                admin   404
GET    /v1/roles                            reader  200
POST   /v1/roles                            admin   422
DELETE /v1/roles/<role>                     admin   404
PUT    /v1/roles/<role>/members/<user_id>   admin   404
DELETE /v1/roles/<role>/members/<user_id>   admin   404
GET    /v1/audit                            admin   200
GET    /v1/secrets                          writer  200
PUT    /v1/secrets/<name>                   writer  422
DELETE /v1/secrets/<name>                   writer  404
GET    /v1/worker-tokens                    admin   200
POST   /v1/worker-tokens                    admin   422
DELETE /v1/worker-tokens/<token_id>         admin   404
POST   /v1/hooks/<source_id>                source  422
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
USERS = ("reader", "writer", "admin")
STRANGERS = ("stranger", "somebody without an org")


def expected(admits: str, status: str, principal: str) -> int:
    if admits == "anybody" or admits == principal:
        return int(status)
    if admits in USERS:
        if principal in USERS:
            return int(status) if USERS.index(principal) >= USERS.index(admits) else 403
        return 403 if principal in STRANGERS else 401
    return 401


@pytest.fixture(scope="module")
def wall(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wall]:
    dsn = postgres_server.clone()
    home: Path = tmp_path_factory.mktemp("wall")
    with telemetry.redirected(io.StringIO()):
        found = Wall(dsn, home)
        yield found
        found.close()
    postgres_server.drop(dsn)


def refused(reply: Reply) -> bool:
    """The same answer, to the letter, whatever was wrong."""
    return (reply.status, reply.text, reply.headers.get("www-authenticate")) == (
        401,
        UNAUTHENTICATED,
        "Bearer",
    )


def test_the_table_has_every_route_once() -> None:
    assert Counter((row[0], row[1]) for row in ROWS) == Counter(
        (each.method, each.path) for each in ROUTES
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_every_principal_against_every_route(wall: Wall, row: list[str]) -> None:
    method, path, admits, status = row
    surface = next(each.surface for each in ROUTES if (each.method, each.path) == (method, path))
    path = path.replace("<source_id>", str(wall.source_id))
    for name in (
        "dag",
        "pool",
        "slot",
        "job",
        "role",
        "name",
        "number",
        "runtime",
        "dataset",
        "snapshot",
    ):
        path = path.replace(f"<{name}>", "nope")
    for name in ("task_id", "user_id", "token_id"):
        path = path.replace(f"<{name}>", NO_ID)
    body = {"GET": None, "DELETE": None}.get(method, b"{}")
    before = stored(wall.app.state)
    for principal, shown in wall.principals().items():
        reply = wall.send(surface, method, path, body, shown)
        wanted = expected(admits, status, principal)
        assert reply.status == wanted, (principal, reply)
        if wanted == 401:
            assert refused(reply), principal
        if wanted == 403:
            assert reply.text == FORBIDDEN, principal
    assert stored(wall.app.state) == before


@pytest.mark.parametrize("surface", Surface)
def test_a_surface_serves_nothing_of_the_others(wall: Wall, surface: Surface) -> None:
    for each in ROUTES:
        if each.surface is not surface:
            for shown in wall.principals().values():
                reply = wall.send(surface, each.method, each.path, b"{}", shown)
                assert reply.status == 404, each


@pytest.mark.parametrize("kid", ["r1", "e1"])
def test_no_forged_user_token_is_let_in(wall: Wall, kid: str) -> None:
    forge = wall.user_forge("admin", kid)
    assert wall.served.call(forge.good(), "GET", "/v1/audit").status == 200
    found = list(forge.forged())
    assert len(found) >= 60
    for name, token in found:
        reply = wall.served.call(token, "GET", "/v1/audit")
        if name == "the subject of somebody without an account":
            assert (reply.status, reply.text) == (403, FORBIDDEN)
        else:
            assert refused(reply), (name, reply)


def test_no_forged_capability_token_is_let_in(wall: Wall) -> None:
    forge = wall.capability_forge()
    path = "/v1/task/heartbeat"

    def beats(token: str) -> Reply:
        return wall.served.call(token, "POST", path, wall.fence, surface=Surface.TASK)

    assert beats(forge.good()).status == 200
    found = list(forge.forged())
    assert len(found) >= 60
    for name, token in found:
        assert refused(beats(token)), name
    # A user's token of the platform's own key, and the platform's of a user's.
    assert refused(beats(wall.user("admin")))
    assert refused(wall.served.call(forge.good(), "GET", "/v1/me"))


@pytest.mark.parametrize("field", ["task_id", "attempt", "lease_token"])
def test_a_capability_token_speaks_for_its_one_attempt(wall: Wall, field: str) -> None:
    wrong = wall.fence | {field: 2 if field == "attempt" else NO_ID}
    event = {"dataset_uuid": NO_ID, "dataset_version": NO_ID, "cursor": 1}
    more = {"heartbeat": {}, "events": {"events": [event]}, "complete": {"status": "Completed"}}
    for path, fields in more.items():
        reply = wall.served.call(
            wall.capability, "POST", f"/v1/task/{path}", wrong | fields, surface=Surface.TASK
        )
        assert reply.status == 403, (path, reply)


def test_no_forged_worker_token_is_let_in(wall: Wall) -> None:
    found = list(forged_worker_tokens(wall.worker, random.Random(3)))  # noqa: S311
    found.append(("a revoked one", f"Bearer {wall.revoked_worker}"))
    assert len(found) >= 60

    def claims(header: str) -> Reply:
        shown = {"authorization": header}
        return wall.send(Surface.INTERNAL, "POST", "/internal/task-claim", b"{}", shown)

    assert claims(f"Bearer {wall.worker}").status == 422
    for name, header in found:
        assert refused(claims(header)), name


def test_no_forged_webhook_call_is_let_in(wall: Wall) -> None:
    body = b"[]"
    found = list(forged_calls(wall, body))
    assert len(found) >= 60
    good = wall.signature(wall.secret, body)
    path = f"/v1/hooks/{wall.source_id}"
    assert wall.send(Surface.USER, "POST", path, body, good).status == 422
    for name, path, data, headers in found:
        reply = wall.send(Surface.USER, "POST", path, data, headers)
        assert refused(reply), (name, reply)
