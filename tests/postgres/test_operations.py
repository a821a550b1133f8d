"""What people do to keep an org running: its outbox, queues and quotas, through the user API."""

from __future__ import annotations

from datetime import timedelta

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import Org


def test_people_see_and_reset_the_outbox_of_their_org(alpha: Org, beta: Org) -> None:
    alpha.app.state.write("test", "UPDATE outbox SET status = 'Failed', last_error = 'E'", {})
    rows = alpha.ok("GET", "/v1/outbox?status=Failed&kind=wake")["rows"]
    assert {each["last_error"] for each in rows} == {"E"}
    assert alpha.ok("GET", "/v1/outbox?status=Pending")["rows"] == []
    ids = [each["outbox_id"] for each in rows]
    assert beta.ok("POST", "/v1/outbox/reset", {"outbox_ids": ids}) == {"reset": 0}
    assert alpha.ok("POST", "/v1/outbox/reset", {"outbox_ids": ids}) == {"reset": len(ids)}
    assert alpha.ok("POST", "/v1/outbox/reset", {}) == {"reset": 0}
    assert beta.ok("POST", "/v1/outbox/reset", {}) == {"reset": len(ids)}


def test_dead_hints_of_an_org_can_be_seen_and_sent_again(
    alpha: Org, beta: Org, manual_clock: ManualClock
) -> None:
    alpha.app.relay.run_once()
    (queue,) = alpha.ok("GET", "/v1/queues")["queues"]
    assert queue["runtime"] == "worker"
    sent = queue["visible"]
    assert sent > 0
    for _ in range(11):
        received = alpha.app.queue.receive(
            queue["queue"], limit=10, visibility=timedelta(seconds=1), wait=timedelta()
        )
        manual_clock.advance(timedelta(seconds=2))
    assert received == []
    (queue,) = alpha.ok("GET", "/v1/queues")["queues"]
    assert (queue["visible"], queue["dead"]) == (0, sent)
    assert beta.ok("POST", "/v1/queues/worker/redrive", {})["moved"] == 0
    assert alpha.call("POST", "/v1/queues/lambda/redrive", {})[0] == 404
    assert alpha.ok("POST", "/v1/queues/worker/redrive", {})["moved"] == sent
    (queue,) = alpha.ok("GET", "/v1/queues")["queues"]
    assert (queue["visible"], queue["dead"]) == (sent, 0)


def test_a_quota_is_set_seen_and_removed(alpha: Org, beta: Org) -> None:
    quota = {"max_running": 3, "reserved_for_live": 1, "max_starts_hourly": None}
    assert alpha.ok("POST", "/v1/quotas", quota) == quota
    (counter,) = alpha.ok("GET", "/v1/quotas")["counters"]
    assert {name: counter[name] for name in quota} == quota
    assert beta.ok("GET", "/v1/quotas") == {"counters": []}
    assert beta.ok("POST", "/v1/quotas/clear") == {"cleared": False}
    assert alpha.ok("POST", "/v1/quotas/clear") == {"cleared": True}
    assert alpha.ok("GET", "/v1/quotas") == {"counters": []}
    for wrong in ({}, {"max_running": 2, "reserved_for_live": 2}, {"max_starts_hourly": -1}):
        assert alpha.call("POST", "/v1/quotas", wrong)[0] == 422


def test_what_operators_do_is_in_the_audit_and_what_changed_nothing_is_not(alpha: Org) -> None:
    alpha.app.state.write("test", "UPDATE outbox SET status = 'Failed'", {})
    alpha.ok("POST", "/v1/outbox/reset", {"target": "worker"})
    alpha.ok("POST", "/v1/outbox/reset", {})
    alpha.ok("POST", "/v1/queues/worker/redrive", {"limit": 7})
    alpha.ok("POST", "/v1/quotas/clear")
    alpha.ok("POST", "/v1/quotas", {"max_running": 3})
    alpha.ok("POST", "/v1/quotas/clear")
    entries = alpha.ok("GET", "/v1/audit?limit=5")["entries"]
    assert [(each["action"], each["target"], each["detail"]) for each in entries[:4]] == [
        ("quota.clear", "org", {}),
        ("quota.set", "org", {"max_running": 3, "reserved_for_live": 0}),
        ("queue.redrive", "worker", {"limit": 7}),
        ("outbox.reset", "Failed", {"rows": 1, "sent_to": "worker"}),
    ]
    assert {each["actor_name"] for each in entries[:4]} == {"local:alpha"}
    assert entries[4]["action"] == "dag.deploy", "the reset that found nothing left no row"
