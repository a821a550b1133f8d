"""Pins: a lease reads what its claim pinned, and a pin shows the same for ever."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commit_world import CommitWorld
from tests.factories import World
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, StaleAttempt, TaskCanceled
from trace_core.kernel.scopes import Scope
from trace_core.registry.pins import PinResolver
from trace_core.storage.model import Pin
from trace_core.storage.scopes import overlap
from trace_core.tasks.api import InputRequest, StartRequest
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.inputs import TaskInputs
from trace_core.tasks.payload import Payloads, TokenRequest

FIVE, SIX, SEVEN = (Scope(cursor=each) for each in (5, 6, 7))
RANGE = Scope.of_range


def _pin(world: CommitWorld, job: str, number: int) -> Pin:
    return Pin(*world.output(job), number, 1)  # type: ignore[arg-type]


def _scopes(
    world: CommitWorld, number: int, scope: Scope | None = None, **page: Any
) -> list[tuple[int, str]]:
    """Number and scope of what a pin of `a` shows of a scope."""
    (part,) = PinResolver(world.state).resolve([_pin(world, "a", number)], scope=scope, **page)
    return [(entry.number, entry.scope.key) for entry in part.live_entries()]


@pytest.fixture
def rewritten(fork: CommitWorld) -> CommitWorld:
    """1: 0-9, 2: 10-19, 3: 20-29, 4: 0-19 in place of the first two."""
    source = fork.take("a")
    for scope in (RANGE(0, 9), RANGE(10, 19), RANGE(20, 29), RANGE(0, 19)):
        fork.commit(source, [fork.written(source, "a", scope)])
    return fork


# The payload ------------------------------------------------------------------------------------


def test_the_payload_names_the_pins_of_its_lease_and_not_what_came_since(fork: CommitWorld) -> None:
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE)])
    task = fork.take("b")
    fork.commit(source, [fork.written(source, "a", SIX)])
    (payload,) = fork.payloads.build([task])
    a, side = payload["inputs"]
    assert (a["alias"], a["commit_number"], a["swap"], a["backend"]) == ("a", 1, 1, "s3")
    assert (side["alias"], side["commit_number"]) == ("side", 0)
    recorded = fork.rows("SELECT * FROM task_inputs WHERE task_id = %(t)s", t=task.task_id)
    assert sorted((row.input_index, row.commit_number, row.swap) for row in recorded) == [
        (0, 1, 1),
        (1, 0, 1),
    ]
    fetched = fork.payloads.fetch(fork.org, task.task_id)["task"]
    assert fetched["inputs"] == payload["inputs"]


def test_the_outputs_say_how_their_rows_are_kept(fork: CommitWorld) -> None:
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE)])
    (output,) = fork.payloads.build([source])[0]["outputs"]
    assert (output["backend"], output["update_strategy"], output["unique_key"]) == (
        "s3",
        "replace",
        [],
    )
    # As the first commit had them: they were not known when the job was read first.
    assert [each["name"] for each in output["columns"]] == ["cursor", "value"]


def test_a_trigger_names_its_dataset_also_when_another_version_is_read(fork: CommitWorld) -> None:
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE)])
    (payload,) = fork.payloads.build([fork.take("b")])
    assert payload["trigger"]["input_index"] == 0
    assert payload["trigger"]["dataset_uuid"] == str(fork.output("a")[0])


def test_the_token_is_for_the_pins_and_for_the_prefixes_behind_them(fork: CommitWorld) -> None:
    asked: list[TokenRequest] = []

    def issue(request: TokenRequest) -> str:
        asked.append(request)
        return "token"

    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE)])
    Payloads(fork.state, fork.clock, issue).build([fork.take("b")])
    (request,) = asked
    versions = [fork.output(job)[1] for job in ("a", "side")]
    assert [(pin.dataset_version, pin.number) for pin in request.pins] == list(
        zip(versions, (1, 0), strict=True)
    )
    assert [each.rpartition("version/")[2] for each in request.read_prefixes] == [
        f"{version}/" for version in versions
    ]


LAMBDA = """
version: 1
name: chain
jobs:
  - {name: a, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: b, activation: reactive, runtime: lambda, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}], outputs: 1, update_strategy: replace}
"""


def test_a_reservation_has_no_pins_until_the_exchange(world: World) -> None:
    world.deploy(LAMBDA)
    source = world.feed(1)
    (reserved,) = world.claims.reserve(world.org, Runtime.LAMBDA, 1)
    (payload,) = world.payloads.build([reserved])
    assert [each["commit_number"] for each in payload["inputs"]] == [None]
    world.accept(source, [world.event("a", 2)])
    assert reserved.start_token is not None
    start = StartRequest(
        task_id=reserved.task_id, start_token=reserved.start_token, runner_id="runner"
    )
    started = world.claims.start(start)
    assert isinstance(started, Claimed)
    assert [pin.number for pin in started.pins] == [2]
    world.accept(source, [world.event("a", 3)])
    # The reply was lost: the same lease again, with the same pins.
    assert world.claims.start(start) == started


def test_tasks_of_one_claim_have_the_same_pins(chain: World) -> None:
    chain.feed(1, 2, 3)
    claims = [each for each in chain.claim(10) if each.trigger]
    assert len(claims) == 3
    assert len({each.pins for each in claims}) == 1


# Resolving --------------------------------------------------------------------------------------


def test_a_pin_shows_what_was_valid_at_it(rewritten: CommitWorld) -> None:
    assert _scopes(rewritten, 0) == []
    assert _scopes(rewritten, 2) == [(1, "p0-9"), (2, "p10-19")]
    assert _scopes(rewritten, 3) == [(1, "p0-9"), (2, "p10-19"), (3, "p20-29")]
    assert _scopes(rewritten, 4) == [(3, "p20-29"), (4, "p0-19")]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "scope",
    [*(RANGE(*each) for each in ((0, 9), (5, 12), (19, 20), (0, 99), (30, 40))), Scope(cursor=9),
     Scope(partition_key="none"), Scope()],
    ids=lambda scope: scope.key,
)  # fmt: skip
def test_a_scope_finds_the_commits_that_meet_it_at_every_pin(
    rewritten: CommitWorld, number: int, scope: Scope
) -> None:
    whole = PinResolver(rewritten.state).resolve([_pin(rewritten, "a", number)])[0]
    meeting = [
        (entry.number, entry.scope.key)
        for entry in whole.live_entries()
        if overlap(entry.scope, scope)
    ]
    assert _scopes(rewritten, number, scope) == meeting


def test_of_appended_rows_a_scope_finds_every_commit(fork: CommitWorld) -> None:
    fork.keep("a", "s3", "append")
    source = fork.take("a")
    for scope in (FIVE, SIX, SEVEN):
        fork.commit(source, [fork.written(source, "a", scope)])
    assert [number for number, _ in _scopes(fork, 2, SIX)] == [1, 2]


def test_entries_come_in_pages(rewritten: CommitWorld) -> None:
    assert _scopes(rewritten, 3, limit=2) == [(1, "p0-9"), (2, "p10-19")]
    assert _scopes(rewritten, 3, after=2, limit=2) == [(3, "p20-29")]


def test_several_pins_are_resolved_at_once_in_their_order(rewritten: CommitWorld) -> None:
    pins = [_pin(rewritten, "side", 0), _pin(rewritten, "a", 3), _pin(rewritten, "a", 1)]
    parts = PinResolver(rewritten.state).resolve(pins)
    assert [part.pin for part in parts] == pins
    assert [len(part.entries) for part in parts] == [0, 3, 1]
    assert [column.name for column in parts[1].columns] == ["cursor", "value"]
    with pytest.raises(NotFound):
        dataset, _ = rewritten.output("a")
        PinResolver(rewritten.state).resolve([Pin(dataset, dataset, 1, 1)])  # type: ignore[arg-type]


PUBLISHED = """
version: 1
name: chain
jobs:
  - {name: a, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 3, update_strategy: replace}
publish:
  both: {from: [{job: a, output: 1}, {job: a, output: 0}]}
  one: {from: {job: a, output: 2}}
"""


def test_the_current_pins_of_published_names_come_part_by_part(commit_world: CommitWorld) -> None:
    world = commit_world
    world.deploy(PUBLISHED)
    for index in (0, 1, 2):
        world.keep("a", "s3", index=index)
    source = world.take("a")
    world.commit(source, [world.written(source, "a", FIVE, cursor_column="cursor")])
    resolver = PinResolver(world.state)
    found = resolver.current_pins(world.org, ["one", "both", "one"])
    hot, cold, other = (
        Pin(*world.output("a", index), number, 1)  # type: ignore[arg-type]
        for index, number in ((1, 0), (0, 1), (2, 0))
    )
    assert found == {"both": (hot, cold), "one": (other,)}
    with pytest.raises(NotFound, match="nobody"):
        resolver.current_pins(world.org, ["one", "nobody"])
    with pytest.raises(NotFound):
        resolver.current_pins(world.another_org(), ["one"])


# For a running attempt --------------------------------------------------------------------------


def _ask(world: CommitWorld, claim: Claimed, **changes: Any) -> Any:
    inputs = TaskInputs(world.state, world.leases, PinResolver(world.state))
    body = {**vars(claim.fence), "alias": "a", **changes}
    org = body.pop("org", world.org)
    return inputs.resolve(org, InputRequest.model_validate(body))


def test_a_running_attempt_finds_its_input_at_its_pin(fork: CommitWorld) -> None:
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE), fork.written(source, "a", SIX)])
    task = fork.take("b")
    fork.commit(source, [fork.written(source, "a", SEVEN)])
    (part,) = _ask(fork, task)["parts"]
    assert (part["number"], part["backend"], part["next"]) == (2, "s3", None)
    assert [entry["scope"] for entry in part["entries"]] == [{"cursor": 5}, {"cursor": 6}]
    (part,) = _ask(fork, task, scope={"cursor": 6})["parts"]
    assert [entry["number"] for entry in part["entries"]] == [2]
    with pytest.raises(NotFound, match="'other'"):
        _ask(fork, task, alias="other")


def test_the_commits_of_an_input_come_in_pages(
    fork: CommitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTRIES_PER_PAGE", 2)
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", Scope(cursor=each)) for each in range(5)])
    task = fork.take("b")
    seen, after = [], 0
    while after is not None:
        version = fork.output("a")[1]
        (part,) = _ask(fork, task, dataset_version=version, after=after)["parts"]
        seen.append([entry["number"] for entry in part["entries"]])
        after = part["next"]
    assert seen == [[1, 2], [3, 4], [5]]


def test_only_the_lease_that_runs_finds_inputs(fork: CommitWorld) -> None:
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE)])
    task = fork.take("b")
    with pytest.raises(StaleAttempt):
        _ask(fork, task, attempt=2)
    with pytest.raises(StaleAttempt):
        _ask(fork, task, lease_token=fork.ids.token())
    with pytest.raises(NotFound):
        _ask(fork, task, org=fork.another_org())
    fork.report(task, "Failed", retryable=True)
    with pytest.raises(StaleAttempt):
        _ask(fork, task)
    fork.pass_time(hours=1)
    fork.dispatcher.run_once()
    again = fork.take("b")
    fork.admin.cancel(fork.org, again.task_id, SYSTEM)
    with pytest.raises(TaskCanceled):
        _ask(fork, again)


def test_claims_by_id_have_pins_too(fork: CommitWorld) -> None:
    source = fork.take("a")
    assert source.pins == ()
    fork.commit(source, [fork.written(source, "a", FIVE)])
    (claim,) = [
        each
        for each in Claims(fork.state, fork.clock, fork.ids).claim(
            fork.org, Runtime.WORKER, 10, "worker-2"
        )
        if each.trigger
    ]
    assert [pin.number for pin in claim.pins] == [1, 0]
