"""Requests in a minute: shared by all processes, by user, by org and by webhook."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import OPERATORS, SilentWaker
from tests.postgres.served import Person, Served
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.dispatcher.service import Dispatcher
from trace_core.http.routes import Surface
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.identity.rate_limits import SQL, Rate, RateLimits
from trace_core.kernel.errors import RateLimited
from trace_core.kernel.ids import Ids, OrgId, UserId
from trace_core.kernel.limits import RequestLimits
from trace_core.settings import Settings

ORGS = [OrgId(UUID(int=number)) for number in (1, 2)]
USERS = [UserId(UUID(int=number)) for number in range(10, 14)]


def passes(limits: RateLimits, org: OrgId, user: UserId, rate: Rate = Rate.GENERAL) -> bool:
    try:
        limits.take(org, user, rate)
    except RateLimited:
        return False
    return True


requests = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(ORGS),
        st.sampled_from(USERS),
        st.sampled_from(Rate),
        st.sampled_from([0, 0, 0, 1, 20, 60]),
    ),
    max_size=60,
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(requests, st.integers(1, 6), st.integers(1, 12), st.integers(1, 3))
def test_no_window_lets_more_through_than_its_limit_and_none_is_refused_without_reason(
    state_database: StateDatabase,
    asked: list[tuple[int, OrgId, UserId, Rate, int]],
    of_user: int,
    of_org: int,
    of_query: int,
) -> None:
    with state_database.connection() as connection:
        connection.execute("TRUNCATE request_counts")
    clock = ManualClock()
    allowed = RequestLimits(of_user, of_org, of_query)
    # Three processes: each has a memory of its own and all have one database.
    processes = [RateLimits(state_database, clock, allowed) for _ in range(3)]
    let_in: Counter[object] = Counter()
    counted: Counter[object] = Counter()
    for process, org, user, rate, seconds in asked:
        clock.advance(timedelta(seconds=seconds))
        window = int(clock.now().timestamp()) // 60
        limit = of_query if rate is Rate.QUERY else of_user
        passed = passes(processes[process], org, user, rate)
        if counted[window, user, rate] < limit:
            # A request that the org refuses has been counted for its user, unless the process
            # knew; either is allowed, and the model only bounds what passes.
            assert passed or let_in[window, org] == of_org
        else:
            assert not passed or let_in[window, user, rate] < limit
        if passed:
            counted[window, user, rate] += 1
            let_in[window, user, rate] += 1
            let_in[window, org] += 1
        elif let_in[window, org] == of_org:
            counted[window, user, rate] += 1
    for key, count in let_in.items():
        assert isinstance(key, tuple)
        bound = of_org if len(key) == 2 else of_query if key[2] is Rate.QUERY else of_user
        assert count <= bound, key


HAMMER = """
import sys
from datetime import UTC, datetime
from uuid import UUID
from trace_core.database.state import StateDatabase
from trace_core.identity.rate_limits import RateLimits
from trace_core.kernel.errors import RateLimited
from trace_core.kernel.limits import RequestLimits

class Clock:
    def now(self):
        return datetime(2026, 1, 15, 12, 0, 30, tzinfo=UTC)

state = StateDatabase(sys.argv[1])
limits = RateLimits(state, Clock(), RequestLimits(user=150, org=400))
user, passed = UUID(int=int(sys.argv[2])), 0
print("ready", flush=True)
sys.stdin.readline()
for _ in range(300):
    try:
        limits.take(UUID(int=1), user)
        passed += 1
    except RateLimited:
        pass
print(passed)
state.close()
"""


def test_several_processes_at_once_let_exactly_the_limit_through(state_dsn: str) -> None:
    # Two processes share a user, two have their own: 450 for the users, of which the org has 400.
    runs = [
        Popen(
            [sys.executable, "-c", HAMMER, state_dsn, str(user)], stdin=PIPE, stdout=PIPE, text=True
        )
        for user in (1, 1, 2, 3)
    ]
    for run in runs:
        assert run.stdout is not None and run.stdin is not None
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("go\n")
        run.stdin.flush()
    passed = [int(run.communicate(timeout=60)[0]) for run in runs]
    assert sum(passed) == 400
    assert passed[0] + passed[1] <= 150
    assert passed[2] <= 150 and passed[3] <= 150


def test_threads_of_one_process_share_the_count_too(
    state_dsn: str, manual_clock: ManualClock
) -> None:
    state = StateDatabase(state_dsn, size=8)
    limits = RateLimits(state, manual_clock, RequestLimits(user=50, org=1000))
    passed: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda: passed.extend(passes(limits, ORGS[0], USERS[0]) for _ in range(20))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(passed), len(passed)) == (50, 160)
    state.close()


class Counting(StateDatabase):
    asked = 0

    def write(self, name: str, sql: str, params: object) -> list[object]:  # type: ignore[override]
        self.asked += 1
        return super().write(name, sql, params)  # type: ignore[arg-type]


def test_a_window_that_is_known_to_be_full_is_not_asked_again(
    state_dsn: str, manual_clock: ManualClock
) -> None:
    state = Counting(state_dsn)
    limits = RateLimits(state, manual_clock, RequestLimits(user=3, org=5, hook=2))
    assert [passes(limits, ORGS[0], USERS[0]) for _ in range(10)] == [True] * 3 + [False] * 7
    assert state.asked == 4
    assert [passes(limits, ORGS[0], USERS[1]) for _ in range(5)] == [True] * 2 + [False] * 3
    assert state.asked == 7
    assert not passes(limits, ORGS[0], USERS[2]), "the org is full for everybody"
    assert state.asked == 7
    assert passes(limits, ORGS[1], USERS[2]), "and other orgs are not"
    hook = UUID(int=7)
    assert [limits.take_hook(hook).remaining for _ in range(2)] == [1, 0]
    for _ in range(3):
        with pytest.raises(RateLimited):
            limits.take_hook(hook)
    assert state.asked == 11
    manual_clock.advance(timedelta(minutes=1))
    assert passes(limits, ORGS[0], USERS[0])
    assert limits.take_hook(hook).remaining == 1
    state.close()


def test_one_user_cannot_use_up_what_is_the_orgs(
    state_database: StateDatabase, manual_clock: ManualClock
) -> None:
    allowed = RequestLimits(user=3, org=6)
    for _ in range(20):
        # A process that remembers nothing asks each time.
        passes(RateLimits(state_database, manual_clock, allowed), ORGS[0], USERS[0])
    limits = RateLimits(state_database, manual_clock, allowed)
    assert [passes(limits, ORGS[0], USERS[1]) for _ in range(4)] == [True] * 3 + [False]


def test_queries_have_a_limit_of_their_own(
    state_database: StateDatabase, manual_clock: ManualClock
) -> None:
    limits = RateLimits(state_database, manual_clock, RequestLimits(user=3, org=100, query=2))
    asked = [passes(limits, ORGS[0], USERS[0], Rate.QUERY) for _ in range(3)]
    assert asked == [True, True, False]
    assert [passes(limits, ORGS[0], USERS[0]) for _ in range(4)] == [True] * 3 + [False]


def test_windows_that_are_over_are_deleted_by_the_dispatcher(
    served: Served, manual_clock: ManualClock
) -> None:
    app = served.app
    limits = RateLimits(app.state, manual_clock)
    limits.take(ORGS[0], USERS[0])
    manual_clock.advance(timedelta(minutes=4))
    limits.take(ORGS[0], USERS[0])

    def windows() -> int:
        rows = app.state.read("SELECT count(DISTINCT window_started_at) FROM request_counts", {})
        return int(rows[0][0])

    dispatcher: Dispatcher = app.dispatcher
    dispatcher.run_until_idle(timedelta(0))
    assert windows() == 2
    manual_clock.advance(timedelta(minutes=2))
    dispatcher.run_until_idle(timedelta(0))
    assert windows() == 1


def test_the_plans_look_rows_up_by_their_key(state_database: StateDatabase) -> None:
    for number in range(3):
        RateLimits(state_database, ManualClock()).take(ORGS[0], USERS[number])
    rows = state_database.read(
        "EXPLAIN " + SQL["forget_requests"].replace("%(before)s", "'2026-01-01'::timestamptz"), {}
    )
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan and "request_counts_pkey" in plan


@pytest.fixture
def limited(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids, log: object
) -> Iterator[Served]:
    state = StateDatabase(state_dsn, size=8)
    chosen = Settings(
        home=tmp_path / "home", operator_modules=(OPERATORS,),
        user_requests=3, org_requests=5, hook_requests=2,
    )  # fmt: skip
    app = App(chosen, state=state, clock=manual_clock, ids=ids, waker=SilentWaker())
    found = Served(app)
    app.orgs.first_admin(app.own_org, app.subject("ada"))
    yield found
    found.stop()
    state.close()


def test_a_caller_over_its_limit_is_told_when_to_come_back(
    limited: Served, manual_clock: ManualClock
) -> None:
    ada = Person(limited, "ada")
    manual_clock.advance(timedelta(seconds=20))
    left = [ada.call("GET", "/v1/me").headers["ratelimit-remaining"] for _ in range(2)]
    assert left == ["2", "1"]
    missing = ada.call("GET", "/v1/dags/nope")
    assert (missing.status, missing.headers["ratelimit-remaining"]) == (404, "0")
    refused = ada.call("GET", "/v1/me")
    assert (refused.status, refused.body["error"]["code"]) == (429, "RateLimited")
    assert refused.headers["retry-after"] == refused.headers["ratelimit-reset"] == "40"
    assert (refused.headers["ratelimit-limit"], refused.headers["ratelimit-remaining"]) == (
        "3",
        "0",
    )
    assert refused.body["error"]["retry_after_seconds"] == 40
    manual_clock.advance(timedelta(seconds=40))
    assert ada.call("GET", "/v1/me").status == 200


def test_an_org_has_a_limit_over_those_of_its_users(limited: Served) -> None:
    limited.app.members.add(
        limited.app.own_org, limited.app.subject("bob"), PlatformRole.READER, None, SYSTEM
    )
    ada, bob = Person(limited, "ada"), Person(limited, "bob")
    assert [ada.call("GET", "/v1/me").status for _ in range(3)] == [200] * 3
    replies = [bob.call("GET", "/v1/me") for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert replies[1].headers["ratelimit-limit"] == "5", "the one that is nearest to its end"


def test_who_is_not_known_is_not_counted_and_neither_are_workers(limited: Served) -> None:
    ada = Person(limited, "ada")
    for _ in range(6):
        assert limited.call("nope", "GET", "/v1/me").status == 401
        assert limited.call("", "GET", "/v1/openapi.json").status == 200
        body = {"worker_id": "w", "queue": "worker"}
        reply = limited.call(
            limited.app.worker_token, "POST", "/internal/task-claim", body,
            surface=Surface.INTERNAL,
        )  # fmt: skip
        assert reply.status == 200
        assert "ratelimit-limit" not in reply.headers
    assert ada.call("GET", "/v1/me").status == 200
