"""Datasets: what they are, who reads them, snapshots, what is stored, purges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from uuid import UUID

from functions.user_api.api import Call, api
from trace_core.http import dataset_answers as answers
from trace_core.http import dataset_calls, pages
from trace_core.http.answers import Answer
from trace_core.kernel.ids import UserId
from trace_core.registry.reading import Moment
from trace_core.storage.model import Pin
from trace_core.tasks.api import InvalidateRequest


@api.route("GET", "/v1/datasets")
def datasets(call: Call) -> answers.DatasetPage:
    query = call.query(dataset_calls.DatasetsQuery)
    found = call.app.datasets.published(
        call.principal.org_id,
        call.actor,
        dag=query.dag,
        contains=query.contains,
        mine=query.mine,
        hidden=query.hidden,
        limit=query.limit + 1,
        after=pages.after_text(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: str(row["name"]))
    return answers.DatasetPage(datasets=rows, next=following)


@api.route("GET", "/v1/datasets/<dataset>")
def dataset(call: Call) -> answers.DatasetDetail:
    found = call.app.datasets.show(call.principal.org_id, call.path["dataset"], call.actor)
    return answers.DatasetDetail(**found)


@api.route("GET", "/v1/datasets/<dataset>/versions")
def versions(call: Call) -> answers.DatasetVersionPage:
    query = call.query(pages.PageQuery)
    found = call.app.datasets.versions(
        call.principal.org_id,
        call.path["dataset"],
        call.actor,
        limit=query.limit + 1,
        before=pages.after_id(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, _version_id)
    return answers.DatasetVersionPage(versions=rows, next=following)


@api.route("GET", "/v1/datasets/<dataset>/partitions")
def partitions(call: Call) -> answers.PartitionPage:
    query = call.query(dataset_calls.PartitionsQuery)
    found = call.app.datasets.partitions(
        call.principal.org_id,
        call.path["dataset"],
        call.actor,
        limit=query.limit + 1,
        part=query.part,
        scope=query.scope,
        after=dataset_calls.after_partition(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: f"{row['part']}:{row['number']}")
    return answers.PartitionPage(partitions=rows, next=following)


@api.route("PUT", "/v1/datasets/<dataset>/read-roles")
def set_read_roles(call: Call) -> answers.ReadRoles:
    name, roles = call.path["dataset"], call.parse(dataset_calls.ReadRolesRequest).roles
    done = call.app.read_rights.set_read_roles(call.principal.org_id, name, roles, call.actor)
    return answers.ReadRoles(dataset=name, read_roles=done)


@api.route("PUT", "/v1/datasets/<dataset>/owner")
def set_owner(call: Call) -> answers.Owner:
    name, user_id = call.path["dataset"], call.parse(dataset_calls.OwnerRequest).user_id
    owner = None if user_id is None else UserId(user_id)
    done = call.app.read_rights.set_owner(call.principal.org_id, name, owner, call.actor)
    return answers.Owner(dataset=name, owner=done)


@api.route("GET", "/v1/datasets/<dataset>/snapshots")
def snapshots(call: Call) -> answers.SnapshotPage:
    query = call.query(pages.PageQuery)
    found = call.app.snapshots.of(
        call.principal.org_id,
        call.path["dataset"],
        call.actor,
        limit=query.limit + 1,
        after=pages.after_text(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: str(row["snapshot"]))
    return answers.SnapshotPage(snapshots=rows, next=following)


@api.route("POST", "/v1/datasets/<dataset>/snapshots")
def create_snapshot(call: Call) -> Answer[answers.SnapshotMade]:
    name, given = call.path["dataset"], call.parse(dataset_calls.SnapshotRequest)
    pins = call.app.snapshots.create(
        call.principal.org_id, name, given.snapshot, given.description or "", call.actor
    )
    body = answers.SnapshotMade(
        dataset=name,
        snapshot=given.snapshot,
        pins=_pins(pins),
    )
    return Answer(201, body)


@api.route("DELETE", "/v1/datasets/<dataset>/snapshots/<snapshot>")
def remove_snapshot(call: Call) -> answers.SnapshotRemoved:
    name, snapshot = call.path["dataset"], call.path["snapshot"]
    call.app.snapshots.remove(call.principal.org_id, name, snapshot, call.actor)
    return answers.SnapshotRemoved(snapshot=snapshot, removed=True)


@api.route("GET", "/v1/datasets/<dataset>/head")
def head(call: Call) -> answers.Head:
    name, query = call.path["dataset"], call.query(dataset_calls.HeadQuery)
    at = Moment(query.version, query.number, query.snapshot)
    org_id = call.principal.org_id
    found = call.app.heads.head(org_id, name, call.actor, at, limit=query.limit)
    return answers.Head(
        dataset=name,
        pins=_pins(found.pins),
        columns=[answers.DatasetColumn(name=each.name, type=each.type) for each in found.columns],
        rows=found.rows,
        cut=found.cut,
    )


@api.route("GET", "/v1/datasets/<dataset>/verify")
def verify(call: Call) -> answers.Verification:
    name, query = call.path["dataset"], call.query(dataset_calls.VerifyQuery)
    found = call.app.verifications.verify(
        call.principal.org_id,
        name,
        call.actor,
        scope=query.scope,
        after=dataset_calls.after_partition(query.cursor),
    )
    following = None if found.after is None else pages.encode("{}:{}".format(*found.after))
    return answers.Verification(
        dataset=name,
        pins=_pins(found.pins),
        unverifiable=found.unverifiable,
        partitions=found.partitions,
        partitions_in_all=found.partitions_in_all,
        objects=found.objects,
        bytes=found.bytes,
        findings=[
            answers.ObjectFinding(
                part=each.part,
                scope=each.scope.fields(),
                number=each.number,
                problem=each.problem,
                key=each.key,
            )
            for each in found.findings
        ],
        next=following,
    )


@api.route("GET", "/v1/datasets/<dataset>/purge-preview")
def purge_preview(call: Call) -> answers.PurgePreview:
    name, version = call.path["dataset"], call.query(dataset_calls.PurgeQuery).version
    named = None if version is None else [version]
    found = call.app.purges.preview(call.principal.org_id, name, named)
    freed = sum(each["bytes"] for each in found if not each["kept"])
    return answers.PurgePreview(dataset=name, versions=found, freed_bytes=freed)


@api.route("POST", "/v1/datasets/<dataset>/purge")
def purge(call: Call) -> Answer[answers.PurgeMarked]:
    name, wanted = call.path["dataset"], call.parse(dataset_calls.PurgeRequest).versions
    found = call.app.purges.mark(call.principal.org_id, name, wanted, call.actor)
    return Answer(202, answers.PurgeMarked(dataset=name, versions=found))


@api.route("POST", "/v1/datasets/<dataset>/purge/cancel")
def cancel_purge(call: Call) -> answers.PurgeMarked:
    name, wanted = call.path["dataset"], call.parse(dataset_calls.PurgeRequest).versions
    found = call.app.purges.cancel(call.principal.org_id, name, wanted, call.actor)
    return answers.PurgeMarked(dataset=name, versions=found)


@api.route("GET", "/v1/datasets/<dataset>/lineage")
def lineage(call: Call) -> answers.Lineage:
    name, query = call.path["dataset"], call.query(dataset_calls.LineageQuery)
    found = call.app.lineage_views.of(
        call.principal.org_id, name, call.actor, query.scope, depth=query.depth, at=query.number
    )
    return answers.Lineage(dataset=name, **found.fields())


@api.route("GET", "/v1/datasets/<dataset>/invalidations")
def invalidations(call: Call) -> answers.InvalidationPage:
    name, query = call.path["dataset"], call.query(pages.PageQuery)
    call.app.read_rights.find(call.principal.org_id, name, call.actor)
    found = call.app.invalidations.list(
        call.principal.org_id,
        dataset=name,
        limit=query.limit + 1,
        before=pages.after_id(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: UUID(int=row["event_id"].int))
    return answers.InvalidationPage(invalidations=rows, next=following)


@api.route("POST", "/v1/datasets/<dataset>/invalidations")
def invalidate(call: Call) -> Answer[answers.Invalidated]:
    name, given = call.path["dataset"], call.parse(dataset_calls.InvalidationRequest)
    call.app.read_rights.require_deploy_right(call.principal.org_id, name, call.actor)
    request = InvalidateRequest(dataset=name, **dict(given))
    done = call.app.invalidations.declare(call.principal.org_id, request, call.actor)
    body = answers.Invalidated(
        dataset=name,
        parts=[answers.InvalidPart(**asdict(each)) for each in done.invalidations],
        tasks_made=done.tasks_made,
        repeated=done.repeated,
    )
    return Answer(200 if done.repeated else 201, body)


@api.route("GET", "/v1/storage")
def storage(call: Call) -> answers.StoragePage:
    query = call.query(dataset_calls.StorageQuery)
    found = call.app.datasets.storage(
        call.principal.org_id,
        call.actor,
        dag=query.dag,
        limit=query.limit + 1,
        after=pages.after_id(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, _version_id)
    return answers.StoragePage(versions=rows, next=following)


def _pins(pins: Mapping[int, Pin]) -> list[answers.DatasetPin]:
    return [answers.DatasetPin(part=part, **pins[part].fields()) for part in sorted(pins)]


def _version_id(row: dict[str, object]) -> UUID:
    return UUID(str(row["dataset_version"]))
