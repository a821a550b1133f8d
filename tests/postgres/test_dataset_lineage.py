"""Lineage through the API and the command: upstream as far as the caller may read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.postgres.library import Library
from tests.postgres.shell import Shell
from tests.postgres.test_cli_datasets import narrow, shop
from trace_core.database.state import as_json
from trace_core.identity.model import PlatformRole
from trace_core.kernel.scopes import Scope
from trace_core.registry.lineage_views import scope_of

__all__ = ["shop"]
PATH = "/v1/datasets/totals/lineage"


def made(library: Library, job: str, scope: Scope, read: list[tuple[str, int]]) -> UUID:
    """A commit of a job by a task that was triggered by the first of what it read."""
    app = library.served.app
    _, version = library.stored_in(job)
    number = library.commit(version, scope)
    task = app.ids.uuid()
    pins = []
    for name, at in read:
        dataset, pinned = library.version(name)
        pins.append(
            {
                "dataset_uuid": str(dataset),
                "dataset_version": str(pinned),
                "number": at,
                "swap": 1,
            }
        )
    bounds = scope.range or (None, None)
    library.change(
        "INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, dataset_version, scope,"
        " range_start, range_end) SELECT %(task)s, org_id, job_id, 0, %(now)s, %(trigger)s,"
        " %(scope)s, %(start)s, %(end)s FROM dataset_versions WHERE dataset_version = %(version)s",
        task=task,
        now=app.clock.now(),
        trigger=library.version(read[0][0])[1] if read else None,
        scope=scope.key,
        start=bounds[0],
        end=bounds[1],
        version=version,
    )
    library.change(
        "UPDATE commits SET task_id = %(task)s, input_pins = %(pins)s"
        " WHERE dataset_version = %(version)s AND number = %(number)s",
        task=task,
        pins=as_json(pins),
        version=version,
        number=number,
    )
    return UUID(int=task.int)


def chain(library: Library) -> dict[str, UUID]:
    return {
        "orders": made(library, "orders", Scope.of_range(1, 3), []),
        "totals": made(library, "totals", Scope.of_range(1, 3), [("orders", 1)]),
    }


def test_a_scope_is_followed_upstream(library: Library) -> None:
    tasks = chain(library)
    made(library, "totals", Scope.of_range(4, 6), [("orders", 1)])
    found = library.creator.ok("GET", f"{PATH}?scope=2")
    (commit,) = found["commits"]
    assert commit["scope"]["partition_key"] == "1-3"
    assert (commit["task"]["task_id"], commit["task"]["job"]) == (str(tasks["totals"]), "totals")
    (read,) = commit["task"]["inputs"]
    assert (read["job"], read["number"], read["scope"]["partition_key"]) == ("orders", 1, "1-3")
    (upstream,) = read["commits"]
    assert upstream["task"]["task_id"] == str(tasks["orders"])
    assert len(library.creator.ok("GET", PATH)["commits"]) == 2
    near = library.creator.ok("GET", f"{PATH}?scope=1-3&depth=0")["commits"][0]
    assert near["task"]["inputs"][0]["commits"] == []
    assert library.creator.ok("GET", f"{PATH}?scope=9")["commits"] == []
    assert library.creator.call("GET", f"{PATH}?depth=21").status == 422


def test_what_one_may_not_read_is_named_and_not_followed(library: Library) -> None:
    chain(library)
    bob = library.member("bob", PlatformRole.READER, "audience")
    library.admin.ok("PUT", "/v1/datasets/totals/read-roles", {"roles": ["audience"]})

    def read() -> Any:
        return bob.ok("GET", f"{PATH}?scope=1-3")["commits"][0]["task"]["inputs"][0]

    assert (read()["job"], read()["number"], read()["commits"]) == ("orders", 1, [])
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    assert len(read()["commits"]) == 1


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("7", Scope(cursor=7)),
        ("7-9", Scope.of_range(7, 9)),
        ("2026-01", Scope(partition_key="2026-01")),
        ("paris", Scope(partition_key="paris")),
    ],
)
def test_scopes_are_written_as_people_do(text: str, scope: Scope) -> None:
    assert scope_of(text) == scope


def test_the_command_draws_it(shell: Shell, shop: Library) -> None:
    chain(shop)
    shown = narrow(shell.says("lineage", "totals", "2"))
    lines = shown.splitlines()
    assert lines[0].startswith("totals 1-3: commit ")
    assert "by shop.totals (pass_on, code " in lines[1]
    assert "from shop.orders.0, 1-3, at commit 1" in shown
    assert "by shop.orders (emit_cursors, code " in shown
    assert shell.json("lineage", "totals", "2")["truncated"] is False
    assert "Nothing of totals" in shell.says("lineage", "totals", "77")
