"""Purge: what may go and what may not, the wait, the deletion in pieces, and what is left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.library import Library
from tests.postgres.served import audited
from trace_core.kernel import limits
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.scopes import Scope
from trace_core.registry.purge import PurgeBegan, PurgeReport, Purges

DAY = limits.PURGE_GRACE
PATH = "/v1/datasets/totals/purge"


@pytest.fixture
def retired(library: Library) -> UUID:
    """A version of `totals` with two objects that nobody needs: two deploys ago."""
    _, version = library.stored_in("totals")
    library.commit(version, Scope(cursor=1), size=70)
    library.commit(version, Scope(cursor=1), size=80)
    library.next_version("totals")
    library.next_version("totals")
    return version


def kept(library: Library, version: UUID) -> list[str]:
    """Why a version may not go; the preview and the purge say the same."""
    preview = library.admin.ok("GET", f"{PATH}-preview?version={version}")["versions"]
    reasons = [each["reason"] for each in preview[0]["kept"]]
    reply = library.admin.call("POST", PATH, {"versions": [str(version)]})
    assert reply.status == (409 if reasons else 202)
    if reasons:
        assert reply.body["error"]["versions"] == {str(version): reasons}
        assert all(each["message"] in reply.text for each in preview[0]["kept"])
        marked = library.rows("SELECT FROM dataset_versions WHERE purge_marked_at IS NOT NULL")
        assert marked == []
    return reasons


def mark(library: Library, version: UUID) -> Any:
    return library.admin.ok("POST", PATH, {"versions": [str(version)]})["versions"][0]


def standing(library: Library, version: UUID) -> str:
    found = library.admin.ok("GET", "/v1/datasets/totals/versions")["versions"]
    return next(each["standing"] for each in found if each["dataset_version"] == str(version))


def run(library: Library) -> PurgeReport:
    return library.served.app.purges.run_once()


# Refusals -------------------------------------------------------------------------------------


def test_the_preview_says_of_every_version_what_it_holds_and_whether_it_may_go(
    library: Library, retired: UUID
) -> None:
    preview = library.admin.ok("GET", f"{PATH}-preview")
    assert [[why["reason"] for why in each["kept"]] for each in preview["versions"]] == [
        ["current"],
        ["rollback_target"],
        [],
    ]
    last = preview["versions"][-1]
    assert last["dataset_version"] == str(retired)
    assert (last["bytes"], last["objects"], last["commits"]) == (150, 2, 1)
    assert preview["freed_bytes"] == 150


def test_the_current_version_is_kept(library: Library, retired: UUID) -> None:
    assert kept(library, library.version("totals")[1]) == ["current"]


def test_the_target_of_a_rollback_is_kept_until_the_next_cutover(library: Library) -> None:
    _, first = library.stored_in("totals")
    library.next_version("totals")
    assert kept(library, first) == ["rollback_target"]
    # A deploy that is only being built moves nothing.
    library.next_version("totals", cut_over=False)
    assert kept(library, first) == ["rollback_target"]
    library.change("UPDATE deploys SET status = 'Canceled' WHERE cut_over_at IS NULL")
    # A cutover of the same DAG that leaves this job alone still moves the target on.
    library.next_version("orders")
    assert kept(library, first) == []


def test_a_candidate_of_an_open_deploy_is_kept(library: Library, retired: UUID) -> None:
    candidate = library.next_version("totals", cut_over=False)
    for status in ("Building", "Paused", "Checking", "ChecksFailed"):
        library.change("UPDATE deploys SET status = %(s)s WHERE cut_over_at IS NULL", s=status)
        assert kept(library, candidate) == ["candidate"]
    library.change("UPDATE deploys SET status = 'Canceled' WHERE cut_over_at IS NULL")
    assert kept(library, candidate) == []


def test_a_snapshot_protects_from_purge(library: Library) -> None:
    _, version = library.stored_in("totals")
    snapshots = "/v1/datasets/totals/snapshots"
    library.creator.ok("POST", snapshots, {"snapshot": "q3-report"})
    library.next_version("totals")
    library.next_version("totals")
    assert kept(library, version) == ["snapshot"]
    library.creator.ok("DELETE", f"{snapshots}/q3-report")
    assert kept(library, version) == []


def _lease(library: Library, job_id: UUID) -> dict[str, Any]:
    """A running task of that job."""
    app = library.served.app
    task = {
        "task": app.ids.uuid(),
        "org": library.org_id,
        "job": job_id,
        "now": app.clock.now(),
        "token": app.ids.token(),
    }
    library.change(
        "INSERT INTO leases (task_id, org_id, job_id, priority, attempt, failures, lapses,"
        " lease_sequence, lease_token, worker_id, leased_at, started_at, lease_expires_at,"
        " deadline_at) VALUES (%(task)s, %(org)s, %(job)s, 0, 2, 0, 0, 3, %(token)s, 'w', %(now)s,"
        " %(now)s, %(now)s, %(now)s)",
        **task,
    )
    return task


def _job(library: Library, version: UUID) -> UUID:
    row = library.rows(
        "SELECT job_id FROM dataset_versions WHERE dataset_version = %(v)s", v=version
    )[0]
    return UUID(int=row.job_id.int)


def _pin(
    library: Library, task: dict[str, Any], version: UUID, attempt: int = 2, sequence: int = 3
) -> None:
    library.change(
        "INSERT INTO task_inputs (task_id, attempt, lease_sequence, input_index, dataset_version,"
        " commit_number, swap) VALUES (%(task)s, %(attempt)s, %(sequence)s, 0, %(version)s, 1, 1)",
        version=version,
        sequence=sequence,
        attempt=attempt,
        **task,
    )


def test_what_a_running_task_reads_is_kept_until_its_lease_ends(
    library: Library, retired: UUID
) -> None:
    task = _lease(library, _job(library, library.version("orders")[1]))
    # What an attempt or a slice before has read is no matter.
    _pin(library, task, retired, attempt=1)
    _pin(library, task, retired, sequence=2)
    preview = library.admin.ok("GET", f"{PATH}-preview?version={retired}")["versions"]
    assert preview[0]["kept"] == []
    _pin(library, task, retired)
    assert kept(library, retired) == ["read"]
    library.change("DELETE FROM leases")
    assert kept(library, retired) == []


def test_what_a_running_task_writes_is_kept(library: Library, retired: UUID) -> None:
    _lease(library, _job(library, retired))
    assert kept(library, retired) == ["written"]


def test_what_an_open_deploy_builds_from_is_kept(library: Library, retired: UUID) -> None:
    library.next_version("orders", cut_over=False)
    library.change(
        "INSERT INTO candidate_inputs (job_id, dataset_uuid, deploy_id, dataset_version, pinned_at)"
        " SELECT v.job_id, v.dataset_uuid, b.deploy_id, v.dataset_version, 1"
        " FROM dataset_versions v, deploys b WHERE v.dataset_version = %(v)s"
        " AND b.status = 'Building'",
        v=retired,
    )
    assert kept(library, retired) == ["build"]
    library.change("UPDATE deploys SET status = 'Canceled', ended_at = created_at")
    assert kept(library, retired) == []


def test_all_or_nothing_is_marked(library: Library, retired: UUID) -> None:
    current = library.version("totals")[1]
    body = {"versions": [str(retired), str(current)]}
    assert library.admin.call("POST", PATH, body).status == 409
    assert standing(library, retired) == "retired"
    foreign = library.version("orders")[1]
    assert library.admin.call("POST", PATH, {"versions": [str(foreign)]}).status == 404


# The way of a purge ---------------------------------------------------------------------------


def test_a_version_is_marked_and_deleted_after_the_longest_reader(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    others = {version: library.keys(version) for version in (library.version("totals")[1],)}
    marked = mark(library, retired)
    assert marked["standing"] == standing(library, retired) == "purging"
    assert marked["deleted_after"] > marked["marked_at"]
    manual_clock.advance(DAY - timedelta(seconds=1))
    assert run(library) == PurgeReport()
    assert len(library.keys(retired)) == 2
    # Marked again, it keeps its time.
    assert mark(library, retired)["marked_at"] == marked["marked_at"]
    manual_clock.advance(timedelta(seconds=1))
    assert run(library) == PurgeReport(purged=1, objects=2)
    assert run(library) == PurgeReport()
    assert standing(library, retired) == "purged"
    assert library.keys(retired) == []
    assert {version: library.keys(version) for version in others} == others
    stored = library.admin.ok("GET", "/v1/storage")["versions"]
    (gone,) = [each for each in stored if each["dataset_version"] == str(retired)]
    assert (gone["bytes"], gone["superseded_bytes"], gone["objects"]) == (0, 0, 0)
    # Where it came from stays known.
    assert len(library.rows("SELECT FROM commits WHERE dataset_version = %(v)s", v=retired)) == 2
    assert mark(library, retired)["standing"] == "purged"
    assert audited(library.admin, action="dataset") == [
        ("dataset.purged", str(retired)),
        ("dataset.purge", "totals"),
    ]


def test_objects_that_no_commit_names_go_too(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    library.served.app.objects.create(f"{library.prefix(retired)}staging/lost/rows.parquet", b"x")
    mark(library, retired)
    manual_clock.advance(DAY)
    assert run(library).objects == 3
    assert library.keys(retired) == []


def test_a_definition_that_was_purged_is_built_anew_when_it_is_deployed_again(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    job = _job(library, retired)
    before = library.rows("SELECT fingerprint FROM jobs WHERE job_id = %(j)s", j=job)[0].fingerprint
    mark(library, retired)
    manual_clock.advance(DAY)
    run(library)
    row = library.rows("SELECT fingerprint, built_at FROM jobs WHERE job_id = %(j)s", j=job)[0]
    assert row.built_at is None
    # The name and fingerprint are free for a job with a version of its own.
    assert row.fingerprint != before


def test_what_is_needed_after_all_is_kept(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    mark(library, retired)
    manual_clock.advance(DAY)
    task = _lease(library, _job(library, library.version("orders")[1]))
    _pin(library, task, retired)
    assert run(library) == PurgeReport(kept=1)
    assert standing(library, retired) == "retired"
    assert len(library.keys(retired)) == 2
    assert audited(library.admin, action="dataset")[0] == ("dataset.purge_kept", str(retired))


def test_a_purge_can_be_taken_back_until_it_begins(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    body = {"versions": [str(retired)]}
    mark(library, retired)
    assert library.admin.ok("POST", f"{PATH}/cancel", body)["versions"][0]["marked_at"] is None
    manual_clock.advance(DAY)
    assert run(library) == PurgeReport()
    mark(library, retired)
    manual_clock.advance(DAY)
    late = library.admin.call("POST", f"{PATH}/cancel", body)
    assert (late.status, late.body["error"]["code"]) == (409, "PurgeBegan")
    assert audited(library.admin, action="dataset.purge_cancel") == [
        ("dataset.purge_cancel", "totals")
    ]


def test_a_deploy_takes_a_mark_back_and_is_refused_what_is_gone(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    app, job = library.served.app, _job(library, retired)
    mark(library, retired)
    with app.state.transaction("test") as tx:
        app.purges.reclaim(tx, [job])
    assert standing(library, retired) == "retired"
    mark(library, retired)
    manual_clock.advance(DAY)
    for _ in range(2):
        with pytest.raises(PurgeBegan), app.state.transaction("test") as tx:
            app.purges.reclaim(tx, [job])
        run(library)
    assert standing(library, retired) == "purged"


class _Failing:
    """An object store that gives up after so many deletions."""

    def __init__(self, objects: Any, deletions: int) -> None:
        self._objects, self._left = objects, deletions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def delete(self, key: str) -> None:
        if not self._left:
            raise Unavailable
        self._left -= 1
        self._objects.delete(key)


def _purges(library: Library, **changes: Any) -> Purges:
    app = library.served.app
    given: dict[str, Any] = {"objects": app.objects, "drop_table": lambda *_: None} | changes
    return Purges(app.state, app.clock, app.ids, **given)


def test_a_purge_that_broke_off_goes_on(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    mark(library, retired)
    manual_clock.advance(DAY)
    with pytest.raises(Unavailable):
        _purges(library, objects=_Failing(library.served.app.objects, 1)).run_once()
    assert len(library.keys(retired)) == 1
    assert standing(library, retired) == "purging"
    assert run(library) == PurgeReport(purged=1, objects=1)


def test_a_pass_ends_with_its_time_and_the_next_one_goes_on(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    mark(library, retired)
    manual_clock.advance(DAY)
    times = iter([0.0, 31.0])
    assert _purges(library, monotonic=lambda: next(times)).run_once() == PurgeReport()
    assert standing(library, retired) == "purging"
    assert run(library) == PurgeReport(purged=1, objects=2)


def test_a_version_in_postgres_loses_its_table(
    library: Library, retired: UUID, manual_clock: ManualClock
) -> None:
    library.change("UPDATE dataset_versions SET backend = 'postgres'")
    mark(library, retired)
    manual_clock.advance(DAY)
    dropped: list[tuple[UUID, UUID]] = []
    drop: Callable[[UUID, UUID], None] = lambda *names: dropped.append(names)  # noqa: E731
    assert _purges(library, drop_table=drop).run_once().purged == 1
    dataset = library.version("totals")[0]
    assert dropped == [(dataset, retired)]


def test_a_mark_waits_for_a_snapshot_that_is_being_made(library: Library, retired: UUID) -> None:
    """Whichever comes first, a snapshot never names a version that goes."""
    app = library.served.app
    outcome: list[int] = []
    with app.state.transaction("test") as tx:
        # A snapshot of the old version, as one would be made that read the pointer long ago.
        tx.run(
            "INSERT INTO snapshots (org_id, snapshot_name, dataset_name, created_at)"
            " VALUES (%(org)s, 'late', 'totals', %(now)s)",
            {"org": library.org_id, "now": app.clock.now()},
        )
        tx.run(
            "INSERT INTO snapshot_parts SELECT %(org)s, 'late', 0, dataset_uuid, dataset_version,"
            " 1, 1 FROM dataset_versions WHERE dataset_version = %(v)s",
            {"org": library.org_id, "v": retired},
        )
        body = {"versions": [str(retired)]}
        marking = threading.Thread(
            target=lambda: outcome.append(library.admin.call("POST", PATH, body).status)
        )
        marking.start()
        marking.join(0.3)
        assert marking.is_alive(), "the mark must wait"
    marking.join(10)
    assert outcome == [409]


def test_an_output_without_a_name_is_purged_by_its_id(library: Library) -> None:
    dataset, version = library.stored_in("archive")
    library.next_version("archive")
    library.next_version("archive")
    library.change("DELETE FROM publication_parts WHERE dataset_uuid = %(d)s", d=dataset)
    path = f"/v1/datasets/{dataset}/purge"
    preview = library.admin.ok("GET", f"{path}-preview")["versions"]
    assert [bool(each["kept"]) for each in preview] == [True, True, False]
    library.admin.ok("POST", path, {"versions": [str(version)]})
    assert library.admin.call("GET", f"/v1/datasets/{dataset}").status == 404
