"""Thousands of broken requests: none raises, none is our fault, none writes when it is refused.

`TRACE_MUTATIONS` says how many for each of the requests; the full run has 10,000.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import CountingState, Org, events, fence, start_body, stored
from trace_core import telemetry
from trace_core.dag.model import Runtime
from trace_core.kernel.ids import Ids

MUTATIONS = int(os.environ.get("TRACE_MUTATIONS", "500"))

SMALL_DAG = """
version: 1
name: small
jobs:
  - name: asked
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: manual }
    outputs: 1
"""

NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**31 - 1, 2**63, 2**63 - 1, -(2**63), 10**30, 1.5, 1e308,
    "", " ", "a", "0", "a" * 5000, "\x00", "a\x00b", "\ud800", "é", "‮", "'; DROP TABLE tasks; --",
    "../../etc/passwd", "%s", "{}", "Completed", "00000000-0000-0000-0000-000000000000",
    [], [[]], [None], {}, {"a": 1}, {"": {"": []}}, [1] * 1001, "1-0", "5-9", "c1",
]  # fmt: skip
RAW: list[bytes] = [
    b"NaN", b"-Infinity", b"1e999", b"9" * 4400, b"[" * 300 + b"]" * 300, b"\xff", b'"\\ud800"',
    b'"\\u0000"', b"01", b"+1", b"{", b"}", b",", b"\x00", b"\xef\xbb\xbf",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], (*path, index))


def mutated(base: Any, chance: random.Random) -> bytes:
    """One or two changes anywhere in a good body, in its meaning or in its bytes."""
    value = {"": copy.deepcopy(base)}
    for _ in range(chance.choice((1, 1, 1, 2))):
        path = chance.choice(list(places(value[""], ("",))))
        parent: Any = value
        for step in path[:-1]:
            parent = parent[step]
        key = path[-1]
        match chance.randrange(6):
            case 0 if isinstance(parent, list) or path != ("",):
                del parent[key]
            case 1 if isinstance(parent[key], dict):
                parent[key][chance.choice(["x", "org_id", "task", "limit", "state"])] = 1
            case 2 if isinstance(parent[key], list) and parent[key]:
                parent[key].append(copy.deepcopy(chance.choice(parent[key])))
            case 3 if isinstance(parent[key], str):
                parent[key] = str(uuid4())
            case _:
                parent[key] = copy.deepcopy(chance.choice(NASTY))
    data = json.dumps(value.get("")).encode()
    if chance.random() < 0.25 and data:
        at = chance.randrange(len(data))
        cut = chance.choice((0, 0, 1, 3))
        data = data[:at] + chance.choice([b"", *RAW]) + data[at + cut :]
    return data


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    target = io.StringIO()
    with telemetry.redirected(target, metrics=True):
        yield target


@pytest.fixture
def org(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids, log: io.StringIO
) -> Iterator[Org]:
    state = CountingState(state_dsn)
    org = Org("alpha", tmp_path, state, manual_clock, ids)
    org.deploy()
    yield org
    org.app.close()
    state.close()


class Bodies:
    """Good bodies for each route; asked for again whenever one was accepted."""

    def __init__(self, org: Org) -> None:
        self.org = org
        self.source = org.claim_source()
        self.next = 0
        self.token = ""

    def _cursors(self, count: int) -> range:
        self.next += count
        return range(self.next - count, self.next)

    def _follow(self) -> Any:
        cursors = self._cursors(1)
        self.org.make_follow_tasks(self.source, cursors.start, 1)
        return self.org.claim(1)[0]

    def _reserve(self) -> dict[str, Any]:
        claim = self._follow()
        body = {**fence(claim), "status": "Completed", "events": events(claim, [self.next])}
        self.org.ok("POST", "/internal/task-complete", body)
        app = self.org.app
        return app.payloads.build(app.claims.reserve(self.org.org_id, Runtime.LAMBDA, 1))[0]

    def _started(self) -> Any:
        started = self.org.ok("POST", "/v1/task/start", start_body(self._reserve()))
        self.token = started["task"]["capability_token"]
        return started

    def claim_queue(self) -> Any:
        return {"worker_id": "host:1", "queue": "worker", "limit": 3}

    def claim_ids(self) -> Any:
        self.org.make_follow_tasks(self.source, self._cursors(1).start, 1)
        tasks = self.org.ok("GET", "/v1/tasks?job=follow&limit=2")["tasks"]
        return {"worker_id": "host:1", "task_ids": [each["task_id"] for each in tasks]}

    def heartbeat(self) -> Any:
        return fence(self.source)

    def events(self) -> Any:
        ranges = [
            {**each, "partition_key": "5-9", "start": 5, "end": 9, "revision": self.next}
            for each in events(self.source, [0])
        ]
        for each in ranges:
            del each["cursor"]
        found = events(self.source, self._cursors(2)) + ranges
        return {**fence(self.source), "events": found}

    def complete(self) -> Any:
        claim = self._follow()
        output = claim["task"]["outputs"][0]
        return {
            **fence(claim),
            "status": "Completed",
            "events": events(claim, [self.next]),
            "outputs": [
                {
                    "output_index": 0,
                    "dataset_uuid": output["dataset_uuid"],
                    "dataset_version": output["dataset_version"],
                    "location": f"postgres_table:dataset_{output['dataset_uuid']}",
                    "cursor": self.next,
                    "row_count": 5,
                }
            ],
            "state": [{"key": f"k{self.next}", "revision": 0, "value": {"a": [1, "b", 1.5]}}],
            "triggers_taken": [1],
            "error_message": None,
        }

    def complete_many(self) -> Any:
        failed = {**fence(self._follow()), "status": "Failed", "error_message": "broke"}
        return {"completions": [failed, self.complete()]}

    def start(self) -> Any:
        return start_body(self._reserve())

    def task_heartbeat(self) -> Any:
        return fence(self._started())

    def task_events(self) -> Any:
        started = self._started()
        return {**fence(started), "events": events(started, [1, 2])}

    def task_complete(self) -> Any:
        started = self._started()
        return {**fence(started), "status": "Completed", "events": events(started, [1])}

    def deploy(self) -> Any:
        return {"text": SMALL_DAG, "filename": "small.yaml"}

    def trigger(self) -> Any:
        return {"request": {"start": 1, "end": 10}}

    def reset_outbox(self) -> Any:
        self.org.app.state.write("test", "UPDATE outbox SET status = 'Failed'", {})
        rows = self.org.ok("GET", "/v1/outbox")["rows"]
        ids = [each["outbox_id"] for each in rows]
        return {"status": "Failed", "kind": "wake", "target": "worker", "outbox_ids": ids}

    def redrive(self) -> Any:
        return {"limit": 10}

    def set_quota(self) -> Any:
        return {"max_running": 1000, "reserved_for_live": 2, "max_starts_hourly": 100_000}

    def member(self) -> Any:
        self.next += 1
        return {"subject": f"auth0|{self.next}", "role": "reader", "name": "Somebody"}

    def role(self) -> Any:
        self.next += 1
        return {"role": f"role_{self.next}"}

    def deploy_roles(self) -> Any:
        self.org.call("POST", "/v1/roles", {"role": "ops"})
        return {"roles": ["ops"]}

    def secret(self) -> Any:
        return {"value": "hunter2"}

    def worker_token(self) -> Any:
        self.next += 1
        return {"name": f"farm-{self.next}", "expires_in_days": 30}


PUTS = {"deploy_roles": "/v1/dags/chain/deploy-roles", "secret": "/v1/secrets/key"}
POSTS = {
    "claim_queue": "/internal/task-claim",
    "claim_ids": "/internal/task-claim",
    "heartbeat": "/internal/heartbeat",
    "events": "/internal/events",
    "complete": "/internal/task-complete",
    "complete_many": "/internal/task-complete",
    "start": "/v1/task/start",
    "task_heartbeat": "/v1/task/heartbeat",
    "task_events": "/v1/task/events",
    "task_complete": "/v1/task/complete",
    "deploy": "/v1/dags",
    "trigger": "/v1/dags/chain/jobs/history/trigger",
    "reset_outbox": "/v1/outbox/reset",
    "redrive": "/v1/queues/worker/redrive",
    "set_quota": "/v1/quotas",
    "member": "/v1/members",
    "role": "/v1/roles",
    "worker_token": "/v1/worker-tokens",
}


@pytest.mark.parametrize("name", [*POSTS, *PUTS])
def test_a_broken_body_is_refused_cleanly_and_changes_nothing(
    org: Org, log: io.StringIO, name: str
) -> None:
    chance = random.Random(name)  # noqa: S311
    bodies, state = Bodies(org), org.app.state
    method, path = ("PUT", PUTS[name]) if name in PUTS else ("POST", POSTS[name])
    assert isinstance(state, CountingState)
    make: Callable[[], Any] = getattr(bodies, name)
    base, known = make(), stored(state)
    seen: Counter[int] = Counter()
    for number in range(MUTATIONS):
        data = mutated(base, chance)
        token = org.worker if path.startswith("/internal/") else bodies.token or org.user
        writes = state.writes
        status, answer = org.send(method, path, data, token)
        seen[status] += 1
        assert status < 500, (number, data, log.getvalue()[-3000:])
        if status >= 400:
            assert answer["error"]["code"], data
            if state.writes != writes:
                assert stored(state) == known, (number, data)
        elif state.writes != writes:
            base, known = make(), stored(state)
    assert sum(count for status, count in seen.items() if status >= 400) > MUTATIONS // 4, seen


@pytest.mark.parametrize(
    "path", ["/internal/task-fetch?task_id={}", "/v1/tasks?dag={}", "/v1/tasks?limit={}",
             "/v1/tasks?cursor={}", "/v1/tasks?status={}", "/v1/tasks?{}=1", "/v1/tasks/{}",
             "/v1/tasks/{}/logs", "/v1/outbox?status={}", "/v1/outbox?cursor={}",
             "/internal/wake-ups?seen={}", "/v1/dags?cursor={}", "/v1/dags/{}",
             "/v1/dags/{}/versions",
             "/v1/dags/chain/versions?cursor={}", "/v1/dags/chain/versions/{}",
             "/v1/tasks/{}/attempts", "/v1/events?scope={}", "/v1/events?task={}&cursor={}",
             "/v1/audit?actor={}", "/v1/audit?since={}", "/v1/audit?action={}",
             "/v1/audit?target={}&cursor={}", "/v1/dags/{}/jobs/{}/hook"]
)  # fmt: skip
def test_a_broken_query_or_path_is_refused_cleanly(org: Org, log: io.StringIO, path: str) -> None:
    chance = random.Random(path)  # noqa: S311
    texts = ["%00", "%ff", "a%20b", "%2e%2e", "&", "&x=1", "=", "%C3%A9", "x" * 3000, "-1", "0"]
    texts += [str(each).replace("/", "%2F")[:500] for each in NASTY]
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    token = org.worker if path.startswith("/internal/") else org.user
    writes, state = 0, org.app.state
    assert isinstance(state, CountingState)
    writes = state.writes
    for _ in range(min(MUTATIONS, 2000)):
        text = "".join(chance.choices(texts, k=chance.choice((1, 1, 2))))
        status, _answer = org.send("GET", path.replace("{}", text), b"", token)
        assert status < 500, (text, log.getvalue()[-3000:])
    assert state.writes == writes
