"""Plans, deploys, rollbacks and backfills through the user API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.deploying import EDITED, PIPE, fed, feed, settle, work
from tests.postgres.lite_app import Org
from tests.postgres.served import Person, Served
from trace_core.deploy.builds import Builds
from trace_core.deploy.plan_model import Action
from trace_core.http.deploy_answers import Planned
from trace_core.identity.model import PlatformRole


@pytest.fixture
def org(orgs: tuple[Org, Org]) -> Org:
    return fed(orgs[0])


def deploy(org: Org, text: str = EDITED, **fields: Any) -> Any:
    return org.ok("POST", "/v1/dags", {"text": text, "filename": "pipe.yaml", **fields})


def shown(org: Org, number: int = 2) -> Any:
    return org.ok("GET", f"/v1/dags/pipe/deploys/{number}")


def waits(org: Org, job: str) -> set[str | None]:
    tasks = org.ok("GET", f"/v1/tasks?job={job}&status=Queued")["tasks"]
    return {each["waits_for"] for each in tasks}


def test_a_plan_comes_back_as_the_value_that_it_was_made_from(org: Org) -> None:
    body = {"text": EDITED, "filename": "pipe.yaml"}
    answer = org.ok("POST", "/v1/plans", body)
    assert answer["rebuild_set"] == ["first", "second"]
    plan = Planned(**answer).plan()
    assert plan.to_json() == answer
    assert plan.job("first").action is Action.CHANGED
    assert plan.job("first").estimate is not None
    assert org.ok("GET", "/v1/dags/pipe/deploys")["deploys"][0]["number"] == 1, "nothing changed"
    same = org.ok("POST", "/v1/plans", {"text": "# a comment\n" + PIPE})
    assert (same["is_empty"], same["rebuild_set"]) == (True, [])


def test_a_deploy_does_what_its_plan_said_or_nothing(org: Org) -> None:
    token = org.ok("POST", "/v1/plans", {"text": EDITED})["state_token"]
    done = deploy(org, expected_state=token)
    assert (done["deploy"], done["version"], done["status"]) == (2, 2, "Building")
    assert done["builds"] == ["first", "second"]
    settle(org.app, org.org_id)
    again = {"text": PIPE.replace("seconds:", "others:"), "expected_state": token}
    status, answer = org.call("POST", "/v1/dags", again)
    assert (status, answer["error"]["code"]) == (409, "PlanStale")


def test_a_build_says_how_far_it_is_and_when_it_will_end(
    org: Org, manual_clock: ManualClock
) -> None:
    deploy(org)
    org.app.builds.chore()
    progress = shown(org)["progress"]
    assert (progress["share"], progress["left_seconds"]) == (0.0, None)
    assert {each["job"]: each["waiting"] for each in progress["jobs"]} == {"first": 6, "second": 0}
    manual_clock.advance(timedelta(seconds=30))
    assert work(org.app, org.org_id, 3) == 3
    progress = shown(org)["progress"]
    first, second = progress["jobs"]
    assert (first["job"], first["standing"], first["done"], first["expected"]) == (
        "first", "candidate", 3, 6,
    )  # fmt: skip
    assert (second["waiting"], second["done"], second["expected"]) == (3, 0, 6)
    assert (progress["share"], progress["elapsed_seconds"]) == (0.25, 30)
    assert progress["left_seconds"] == 90
    settle(org.app, org.org_id)
    ended = shown(org)
    assert (ended["status"], ended["progress"], ended["behind"]) == ("Done", None, {})
    assert ended["moved"] == [
        {"job": "first", "output_index": 0, "dataset": None},
        {"job": "second", "output_index": 0, "dataset": "seconds"},
    ]
    assert ended["built_at"] and ended["cut_over_at"] and ended["ended_at"]


def test_a_job_that_is_new_has_no_expectation(org: Org) -> None:
    more = EDITED.replace(
        "publish:",
        """  - name: third
    activation: reactive
    runtime: worker
    operator: pass_on
    execution_strategy: PerUpdate
    inputs: [{ from: { job: second, output: 0 } }]
    outputs: 1
    update_strategy: replace
publish:""",
    )
    deploy(org, more)
    jobs = shown(org)["progress"]["jobs"]
    assert {each["job"]: each["expected"] for each in jobs} == {
        "first": 6, "second": 6, "third": None,
    }  # fmt: skip


def test_live_tasks_say_that_they_wait_for_the_build(org: Org) -> None:
    deploy(org)
    feed(org.app, org.org_id, 100, 1)
    assert waits(org, "first") == {"the build of deploy 2"}
    assert shown(org)["progress"]["held_tasks"] == 1
    org.ok("POST", "/v1/dags/pipe/deploys/pause")
    org.app.builds.chore()
    assert "deploy 2 to be resumed" in waits(org, "first")
    held = {(each["job"], each["standing"]) for each in org.ok("GET", "/v1/status")["jobs"]}
    assert held >= {("first", "held"), ("first", "candidate"), ("numbers", "active")}
    org.ok("POST", "/v1/dags/pipe/deploys/resume")
    settle(org.app, org.org_id)
    standing = {each["standing"] for each in org.ok("GET", "/v1/status")["jobs"]}
    assert standing == {"active"}


def test_a_source_that_has_caught_up_waits_for_its_version(org: Org) -> None:
    deploy(org, PIPE.replace("update_strategy", "config: { per_slice: 3 }\n    update_strategy", 1))
    assert waits(org, "numbers") == {"a worker"}
    org.app.state.write(
        "test",
        "UPDATE jobs SET caught_up = true, claimable = false WHERE standing = 'candidate'",
        {},
    )
    assert waits(org, "numbers") == {"version 2 to become active"}


def test_a_deploy_rests_goes_on_and_is_given_up(org: Org) -> None:
    for action in ("pause", "resume", "cancel"):
        status, answer = org.call("POST", f"/v1/dags/pipe/deploys/{action}")
        assert (status, "under way" in answer["error"]["message"]) == (404, True)
    deploy(org)
    paused = {"dag": "pipe", "deploy": 2, "status": "Paused"}
    assert org.ok("POST", "/v1/dags/pipe/deploys/pause") == paused
    assert org.ok("POST", "/v1/dags/pipe/deploys/pause") == paused, "again changes nothing"
    assert work(org.app, org.org_id) == 0
    (candidate, active) = org.ok("GET", "/v1/dags/pipe/versions")["versions"]
    assert (candidate["candidate"], candidate["active"], candidate["activated_at"]) == (
        True, False, None,
    )  # fmt: skip
    assert (active["candidate"], active["active"]) == (False, True)
    assert org.ok("POST", "/v1/dags/pipe/deploys/resume")["status"] == "Building"
    assert org.ok("POST", "/v1/dags/pipe/deploys/cancel")["status"] == "Canceled"
    settle(org.app, org.org_id)
    assert shown(org)["status"] == "Canceled"
    assert org.ok("GET", "/v1/dags/pipe")["version"] == 1


def test_a_failed_check_is_shown_with_its_verdict_and_can_be_tried_again(org: Org) -> None:
    verdict = {"dataset": "seconds", "holds": False, "message": "3 rows", "examples": [1, 2]}
    app = org.app
    builds = Builds(app.state, app.clock, app.ids, app.waker, lambda _org, _version: [verdict])
    deploy(org)
    for _ in range(6):
        builds.run_once()
        work(app, org.org_id)
    found = shown(org)
    assert (found["status"], found["progress"]["share"]) == ("ChecksFailed", 1.0)
    assert found["checks"] == [verdict]
    assert "3 rows" in found["error"]
    backlog = app.views.backlog()
    assert (backlog.deploys_stuck, backlog.oldest_deploy_at) == (1, app.clock.now())
    verdict["holds"] = True
    assert org.ok("POST", "/v1/dags/pipe/deploys/resume")["status"] == "Building"
    for _ in range(6):
        builds.run_once()
    assert shown(org)["status"] == "Done"
    backlog = app.views.backlog()
    assert (backlog.deploys_stuck, backlog.oldest_deploy_at) == (0, None)


def test_a_rollback_says_what_it_would_do_and_then_what_it_did(org: Org) -> None:
    status, answer = org.call("GET", "/v1/dags/pipe/rollback")
    assert (status, "no earlier version" in answer["error"]["message"]) == (422, True)
    deploy(org)
    settle(org.app, org.org_id)
    feed(org.app, org.org_id, 6, 3)
    settle(org.app, org.org_id)
    preview = org.ok("GET", "/v1/dags/pipe/rollback")
    assert (preview["from_version"], preview["to_version"]) == (2, 1)
    assert preview["restored"] == {"first": 3, "second": 0}
    assert preview["ended"] == {"first": 0, "second": 0}
    report = org.ok("POST", "/v1/dags/pipe/rollback", {})
    assert (report["deploy"], report["from_version"], report["version"]) == (3, 2, 1)
    assert [each["job"] for each in report["restored"]] == ["first", "second"]
    assert (report["behind"], report["deliveries"]) == ({"first": 3}, [])
    assert settle(org.app, org.org_id) == 6
    rows = org.ok("GET", "/v1/dags/pipe/deploys")["deploys"]
    columns = ("number", "kind", "from_version", "to_version")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (3, "rollback", 2, 1),
        (2, "deploy", 1, 2),
        (1, "deploy", None, 1),
    ]
    assert {row["created_by"] for row in rows} == {"local:alpha"}
    assert org.call("POST", "/v1/dags/pipe/rollback", {"version": 9})[0] == 422


def test_deploys_come_in_pages(org: Org) -> None:
    deploy(org)
    settle(org.app, org.org_id)
    page = org.ok("GET", "/v1/dags/pipe/deploys?limit=1")
    assert [each["number"] for each in page["deploys"]] == [2]
    rest = org.ok("GET", f"/v1/dags/pipe/deploys?limit=1&cursor={page['next']}")
    assert ([each["number"] for each in rest["deploys"]], rest["next"]) == ([1], None)


def test_a_backfill_is_begun_watched_rested_and_given_up(org: Org) -> None:
    body = {"start": 1, "end": 4, "reason": "a bug", "window": 2}
    begun = org.ok("POST", "/v1/dags/pipe/jobs/second/backfills", body)
    assert begun == {"dag": "pipe", "job": "second", "number": 1, "scopes": 4}
    org.app.backfills.chore()
    (row,) = org.ok("GET", "/v1/dags/pipe/backfills")["backfills"]
    assert (row["start"], row["end"], row["window"], row["made"], row["status"]) == (
        1, 4, 2, 2, "Running",
    )  # fmt: skip
    assert org.ok("POST", "/v1/dags/pipe/backfills/1/pause")["status"] == "Paused"
    assert org.ok("POST", "/v1/dags/pipe/backfills/1/resume")["status"] == "Running"
    settle(org.app, org.org_id)
    (row,) = org.ok("GET", "/v1/dags/pipe/backfills")["backfills"]
    assert (row["status"], row["completed"]) == ("Done", 4)
    assert org.call("POST", "/v1/dags/pipe/backfills/1/cancel")[0] == 409
    org.ok("POST", "/v1/dags/pipe/jobs/second/backfills", body)
    org.app.backfills.chore()
    given_up = org.ok("POST", "/v1/dags/pipe/backfills/2/cancel")
    assert given_up == {"dag": "pipe", "number": 2, "status": "Canceled", "canceled": 2}
    page = org.ok("GET", "/v1/dags/pipe/backfills?limit=1")
    assert [each["number"] for each in page["backfills"]] == [2]
    assert page["next"]


def test_another_org_sees_nothing_of_it(org: Org, orgs: tuple[Org, Org]) -> None:
    deploy(org)
    other = orgs[1]
    for path in ("deploys", "deploys/1", "rollback", "backfills"):
        assert other.call("GET", f"/v1/dags/pipe/{path}")[0] == 404, path
    for path in ("deploys/pause", "deploys/cancel", "rollback", "backfills/1/pause"):
        assert other.call("POST", f"/v1/dags/pipe/{path}", {})[0] == 404, path
    assert other.ok("POST", "/v1/plans", {"text": EDITED})["from_version"] is None


def test_whoever_may_not_deploy_a_dag_may_not_plan_or_roll_it_back(
    served: Served, admin: Person
) -> None:
    admin.ok("POST", "/v1/dags", {"text": PIPE})
    admin.ok("POST", "/v1/dags", {"text": EDITED})
    writer = served.member("wendy", PlatformRole.WRITER)
    for path, body in (
        ("/v1/plans", {"text": PIPE}),
        ("/v1/dags", {"text": PIPE}),
        ("/v1/dags/pipe/deploys/cancel", {}),
        ("/v1/dags/pipe/rollback", {}),
        ("/v1/dags/pipe/jobs/second/backfills", {"start": 0, "end": 1}),
    ):
        assert writer.call("POST", path, body).status == 403, path


def test_a_build_runs_no_more_tasks_at_once_than_it_was_told(org: Org) -> None:
    deploy(org, concurrency=2)
    org.app.builds.chore()
    first = org.claim(50)
    assert len(first) == 2
    assert org.claim(50) == []
    assert waits(org, "first") == {"capacity"}
    (counter,) = org.ok("GET", "/v1/quotas")["counters"]
    assert (counter["name"], counter["running"], counter["max_running"]) == ("build", 2, 2)
    org.ok("POST", "/v1/dags/pipe/deploys/cancel")
    assert org.ok("GET", "/v1/quotas") == {"counters": []}
    assert org.app.state.read("SELECT FROM jobs WHERE capacity_ids <> '{}'", {}) == []


def test_the_limit_of_a_build_ends_with_it(org: Org) -> None:
    deploy(org, concurrency=1)
    assert settle(org.app, org.org_id) == 12
    assert shown(org)["status"] == "Done"
    assert org.ok("GET", "/v1/quotas") == {"counters": []}
    assert org.app.state.read("SELECT FROM jobs WHERE capacity_ids <> '{}'", {}) == []
