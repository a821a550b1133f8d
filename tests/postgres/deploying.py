"""A DAG that is edited, and a hand that does its work: for tests of deploys through the API."""

from __future__ import annotations

from tests.factories import completion
from tests.postgres.lite_app import Org
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.kernel.ids import OrgId
from trace_core.tasks.api import EventsRequest

PIPE = """
version: 1
name: pipe
jobs:
  - name: numbers
    activation: source
    runtime: worker
    operator: emit_cursors
    source: { kind: always_on }
    outputs: 1
    update_strategy: replace
  - name: first
    activation: reactive
    runtime: worker
    operator: pass_on
    execution_strategy: PerUpdate
    inputs: [{ from: { job: numbers, output: 0 } }]
    outputs: 1
    update_strategy: replace
  - name: second
    activation: reactive
    runtime: worker
    operator: pass_on
    execution_strategy: PerUpdate
    inputs: [{ from: { job: first, output: 0 } }]
    outputs: 1
    update_strategy: replace
publish:
  seconds: { from: { job: second, output: 0 } }
"""
EDITED = PIPE.replace("PerUpdate", "PerPartition", 1)
"""`first` is another one, and so is what reads it."""


def work(app: App, org_id: OrgId, limit: int = 1000) -> int:
    """Complete up to so many tasks but the source's, each announcing what triggered it."""
    done = 0
    while done < limit:
        claims = app.claims.claim(org_id, Runtime.WORKER, min(50, limit - done), "w")
        claims = [each for each in claims if each.trigger is not None]
        if not claims:
            break
        for claim in claims:
            assert claim.trigger is not None
            outputs = [
                {
                    "dataset_uuid": each["dataset_uuid"],
                    "dataset_version": each["dataset_version"],
                    **claim.trigger.scope.fields(),
                    "revision": claim.trigger.revision,
                }
                for each in app.payloads.build([claim])[0]["outputs"]
            ]
            (result,) = app.completions.complete(org_id, [completion(claim, events=outputs)])
            assert result.error is None
            done += 1
    return done


def settle(app: App, org_id: OrgId) -> int:
    """Let builds, backfills, sweeps and workers go on until nothing happens any more."""
    done = idle = 0
    while idle < 4:
        moved = app.builds.chore() + app.backfills.chore()
        ran = work(app, org_id)
        done += ran
        idle = 0 if ran or moved else idle + 1
    return done


def feed(app: App, org_id: OrgId, first: int, count: int) -> None:
    """The source announces so many cursors, in a slice that does not end."""
    leases = app.state.read("SELECT task_id, attempt, lease_token FROM leases", {})
    if not leases:
        app.claims.claim(org_id, Runtime.WORKER, 1, "w")
        leases = app.state.read("SELECT task_id, attempt, lease_token FROM leases", {})
    (output,) = app.state.read(
        "SELECT v.dataset_uuid, v.dataset_version FROM dataset_versions v"
        " JOIN jobs j USING (job_id) WHERE j.name = 'numbers' AND j.standing = 'active'",
        {},
    )
    events = [{**output._asdict(), "cursor": cursor} for cursor in range(first, first + count)]
    request = EventsRequest.model_validate({**leases[0]._asdict(), "events": events})
    app.events.accept(org_id, request)


def fed(org: Org, count: int = 6) -> Org:
    """The DAG, deployed, with so many cursors through all of it and its source at work."""
    org.deploy(PIPE)
    feed(org.app, org.org_id, 0, count)
    settle(org.app, org.org_id)
    return org
