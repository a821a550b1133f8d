"""Lists of the user API: pages by keys, which nothing that comes in meanwhile can move."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.factories import World
from tests.manual_clock import ManualClock
from tests.postgres.lite_app import Org
from tests.postgres.served import Person, Served
from tests.postgres.test_plans import _explain, _nodes
from trace_core.database.state import StateDatabase
from trace_core.identity.model import PlatformRole
from trace_core.kernel.ids import first_uuid7
from trace_core.tasks.event_views import SQL, EventFilter, EventViews


def pages(org: Org, path: str, name: str) -> list[list[Any]]:
    """Each page of a list, two rows at a time."""
    found, cursor = [], ""
    while True:
        page = org.ok("GET", f"{path}{'&' if '?' in path else '?'}limit=2{cursor}")
        found.append(page[name])
        assert len(page[name]) <= 2
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def grown(alpha: Org) -> None:
    """Five cursors are announced by the source, and five tasks follow."""
    alpha.make_follow_tasks(alpha.claim_source(), 0, 5)


def test_tasks_and_events_come_in_pages_newest_first(alpha: Org, beta: Org) -> None:
    grown(alpha)
    tasks = pages(alpha, "/v1/tasks?job=follow", "tasks")
    assert [len(page) for page in tasks] == [2, 2, 1]
    assert [task["scope"]["cursor"] for page in tasks for task in page] == [4, 3, 2, 1, 0]
    events = pages(alpha, "/v1/events", "events")
    assert [event["scope"] for page in events for event in page] == [
        {"cursor": number} for number in (4, 3, 2, 1, 0)
    ]
    assert {(event["dag"], event["job"]) for page in events for event in page} == {
        ("chain", "numbers")
    }
    assert beta.ok("GET", "/v1/events") == {"events": [], "next": None}


def test_a_page_does_not_move_when_rows_come_in(alpha: Org) -> None:
    grown(alpha)
    first = alpha.ok("GET", "/v1/events?limit=2")
    producer = first["events"][0]["task_id"]
    alpha.app.clock.advance(timedelta(seconds=5))  # type: ignore[attr-defined]
    with alpha.app.state.connection() as connection:
        connection.execute(
            "INSERT INTO events SELECT producer_task_id, dataset_version, 'c99', revision, %s,"
            " org_id, attempt, 99, 99, accepted_at FROM events LIMIT 1",
            [alpha.app.ids.event_id()],
        )
    assert alpha.ok("GET", "/v1/events")["events"][0]["scope"] == {"cursor": 99}
    rest = alpha.ok("GET", f"/v1/events?cursor={first['next']}")["events"]
    assert [event["scope"]["cursor"] for event in rest] == [2, 1, 0]
    named = alpha.ok("GET", f"/v1/events?task={producer}")["events"]
    assert [event["scope"]["cursor"] for event in named] == [99, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("query", "cursors"),
    [
        ("dag=chain", [4, 3, 2, 1, 0]),
        ("dag=other", []),
        ("job=numbers", [4, 3, 2, 1, 0]),
        ("job=follow", []),
        ("scope=3", [3]),
        ("scope=c3", []),
        ("task=00000000-0000-7000-8000-000000000000", []),
    ],
)
def test_events_are_filtered(alpha: Org, query: str, cursors: list[int]) -> None:
    grown(alpha)
    found = alpha.ok("GET", f"/v1/events?{query}")["events"]
    assert [event["scope"]["cursor"] for event in found] == cursors


def test_the_events_of_a_task_that_is_no_source_are_found_by_the_task(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    chain.complete(claim, events=[chain.event("b", number) for number in range(3)])
    views = EventViews(chain.state, chain.clock)
    wanted = EventFilter(task=claim.task_id)
    first = views.events(chain.org, wanted, limit=2)
    assert [event["scope"] for event in first.events] == [{"cursor": 2}, {"cursor": 1}]
    rest = views.events(chain.org, wanted, limit=2, before=first.before)
    assert ([event["scope"] for event in rest.events], rest.before) == ([{"cursor": 0}], None)
    assert views.events(chain.another_org(), wanted, limit=2).events == []


def test_attempts_and_versions_have_pages_and_files(alpha: Org) -> None:
    (version,) = alpha.ok("GET", "/v1/dags/chain/versions")["versions"]
    assert (version["number"], version["active"], version["jobs"]) == (1, True, 4)
    shown = alpha.ok("GET", "/v1/dags/chain/versions/1")
    assert "per_slice: 5" in shown["text"]
    dag = alpha.ok("GET", "/v1/dags/chain")
    assert [job["job"] for job in dag["jobs"]] == ["follow", "history", "numbers", "tail"]
    assert dag["created_by"] == "local:alpha"
    for path in (
        "/v1/dags/nope/versions",
        "/v1/dags/chain/versions/2",
        "/v1/dags/chain/versions/x",
    ):
        assert alpha.call("GET", path)[0] == 404
    task = alpha.ok("GET", "/v1/tasks?job=numbers")["tasks"][0]["task_id"]
    with alpha.app.state.connection() as connection:
        connection.execute(
            "INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, ended_at,"
            " lease_sequence) SELECT t.task_id, n, t.org_id, t.job_id, 'Failed', false,"
            " t.created_at, n FROM tasks t, generate_series(1, 5) n WHERE t.task_id = %s",
            [task],
        )
    found = pages(alpha, f"/v1/tasks/{task}/attempts", "attempts")
    assert [[each["attempt"] for each in page] for page in found] == [[1, 2], [3, 4], [5]]


def test_members_roles_and_dags_come_in_pages_by_name(served: Served, admin: Person) -> None:
    for name in ("zoe", "bob", "eve"):
        served.member(name, PlatformRole.READER)
        admin.ok("POST", "/v1/roles", {"role": name})
    first = admin.ok("GET", "/v1/members?limit=3")
    rest = admin.ok("GET", f"/v1/members?limit=3&cursor={first['next']}")
    assert [each["subject"] for each in first["members"] + rest["members"]] == [
        "ada", "bob", "eve", "zoe",
    ]  # fmt: skip
    assert rest["next"] is None
    assert [each["role"] for each in admin.ok("GET", "/v1/roles?limit=1")["roles"]] == ["bob"]


@pytest.mark.parametrize(
    "cursor", ["x", "W10", "WzFd", "W251bGxd", "WyJhXHUwMDAwIl0", "WyJub3BlIl0", "eyJhIjoxfQ"]
)
def test_a_cursor_of_another_making_is_refused_cleanly(alpha: Org, cursor: str) -> None:
    status, answer = alpha.call("GET", f"/v1/tasks?cursor={cursor}")
    assert (status, answer["error"]["code"]) == (422, "Invalid")
    assert "cursor" in str(answer["error"])


def _announce(world: World, at_hours_ago: float, count: int) -> None:
    first = first_uuid7(world.clock.now() - timedelta(hours=at_hours_ago)).int >> 64
    with psycopg.connect(world.state.dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO events SELECT e.producer_task_id, e.dataset_version, 'x' || %s || n,"
            " 0, (%s || lpad(to_hex(n), 12, '0'))::uuid, e.org_id, 1, NULL, NULL, e.accepted_at"
            " FROM generate_series(1, %s) n, (SELECT * FROM events LIMIT 1) e",
            [f"{at_hours_ago}-", f"{first:016x}8000", count],
        )


def test_a_search_for_events_reads_the_span_it_asks_for_and_little_else(chain: World) -> None:
    source = chain.feed(1)
    for hours in (900, 600, 300, 3):
        _announce(chain, hours, 20_000)
    _announce(chain, 0.5, 50)
    with psycopg.connect(chain.state.dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE events")
    now = chain.clock.now()
    params = {
        "org_id": chain.org,
        "since": first_uuid7(now - timedelta(hours=1)),
        "before": UUID(int=2**128 - 1),
        "dag": None, "job": None, "scope": None, "task_id": source.task_id, "limit": 100,
    }  # fmt: skip
    for name in ("events_between", "events_of_source_between"):
        ((plans,),) = _explain(
            chain, SQL[name], params, "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot ({})"
        )
        scans = [
            node
            for node in _nodes(plans[0]["Plan"])
            if node.get("Relation Name", "").startswith("events") and node["Actual Loops"]
        ]
        assert "Seq Scan" not in {node["Node Type"] for node in scans}, plans
        read = sum(
            node["Actual Rows"]
            + node.get("Rows Removed by Filter", 0)
            + node.get("Rows Removed by Index Recheck", 0)
            for node in scans
        )
        assert 50 <= read < 5_000, f"{name} read {read} of 80,000 rows"


def test_a_search_that_takes_too_long_goes_on_with_the_next_page(
    state_database: StateDatabase, chain: World, manual_clock: ManualClock
) -> None:
    chain.feed(1)
    ticks = iter(range(10**6))
    slow = EventViews(state_database, manual_clock, monotonic=lambda: next(ticks))
    manual_clock.advance(timedelta(days=400))
    before, pages_seen = None, 0
    while True:
        found = slow.events(chain.org, EventFilter(), limit=10, before=before)
        pages_seen += 1
        before = found.before
        if found.events or before is None or pages_seen > 20:
            break
    assert found.events == []
    assert before is not None, "it stops, and says where to go on"
    quick = EventViews(state_database, manual_clock)
    rest = quick.events(chain.org, EventFilter(), limit=10, before=before)
    assert (len(rest.events), rest.before) == (1, None)
