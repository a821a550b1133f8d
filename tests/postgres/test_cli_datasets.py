"""The commands about datasets, against real databases and files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tests.postgres.library import SHOP, Library, order
from tests.postgres.shell import Shell
from trace_core.bootstrap import App
from trace_core.kernel.scopes import Scope
from trace_core.settings import Settings

WIDTH = 100


@pytest.fixture
def shop(shell: Shell, tmp_path: Path) -> Iterator[Library]:
    """The DAG `shop`, deployed by whoever types; `totals` has rows in two partitions."""
    (tmp_path / "shop.yaml").write_text(SHOP)
    shell.says("dag", "deploy", "shop.yaml")
    app = App(Settings.from_env())
    served: Any = SimpleNamespace(app=app)
    found = Library(served, served, served)
    found.change(
        "INSERT INTO pointer_moves SELECT c.dataset_uuid, c.swap, c.dataset_version, NULL,"
        " v.created_at FROM dataset_current c JOIN dataset_versions v"
        " ON v.dataset_version = c.dataset_version ON CONFLICT DO NOTHING"
    )
    _, version = found.stored_in("totals")
    found.write(version, Scope.of_range(1, 3), [order(each) for each in (1, 2, 3)])
    found.write(version, Scope.of_range(4, 6), [order(each) for each in (4, 5, 6)])
    found.announce("totals", 6)
    yield found
    app.close()


def narrow(text: str) -> str:
    """What fits a terminal."""
    assert max(map(len, text.splitlines())) <= WIDTH, text
    return text


def words(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()[2:]]


def test_datasets_are_listed_and_shown(shell: Shell, shop: Library) -> None:
    listed = narrow(shell.says("dataset", "list"))
    assert [line[0] for line in words(listed)] == ["orders", "totals"]
    assert "No dataset" in shell.says("dataset", "list", "--dag", "other")
    assert [
        each["name"] for each in shell.json("dataset", "list", "--contains", "tot")["datasets"]
    ] == ["totals"]
    shown = shell.says("dataset", "show", "totals")
    for expected in ("Made from", "orders (shop.orders)", "none: administrators and deployers"):
        assert expected in shown
    assert re.search(r"totals\.0 +s3 +3 +2 +6 ", shown)
    assert re.search(r"amount +numeric\(78, 0\)", shown)
    assert shell.json("dataset", "show", "totals")["parts"][0]["commits"] == 2
    assert "No dataset nope." in shell.fails("dataset", "show", "nope")
    listed = narrow(shell.says("dataset", "partitions", "totals"))
    assert [line[0] for line in words(listed)] == ["4-6", "1-3"]
    assert "current" in narrow(shell.says("dataset", "versions", "totals"))


def test_the_first_rows_are_printed_at_a_pin(shell: Shell, shop: Library) -> None:
    shown = shell.says("dataset", "head", "totals", "-n", "2")
    assert [line[:2] for line in words(shown)] == [["1", "buyer 1"], ["2", "buyer 2"]]
    narrow(shown)
    answer = shell.json("dataset", "head", "totals")
    assert len(answer["rows"]) == 6
    version = answer["pins"][0]["dataset_version"]
    at = shell.json("dataset", "head", "totals", "--at", f"{version}:1")
    assert [row[0] for row in at["rows"]] == [1, 2, 3]
    assert "VERSION:NUMBER" in shell.fails("dataset", "head", "totals", "--at", f"{version}:x")
    assert "not both" in shell.fails(
        "dataset", "head", "totals", "--at", f"{version}:1", "--snapshot", "q3"
    )
    assert "no rows" in shell.fails("dataset", "head", "orders")


def test_a_snapshot_is_made_listed_read_and_deleted(shell: Shell, shop: Library) -> None:
    assert "no snapshots" in shell.says("dataset", "snapshots", "totals")
    made = narrow(shell.says("dataset", "snapshot", "totals", "q3-report", "--description", "Q3"))
    assert made.startswith("q3-report is totals as it is now.")
    _, version = shop.version("totals")
    shop.write(version, Scope.of_range(1, 6), [order(9)])
    rows = shell.json("dataset", "head", "totals", "--snapshot", "q3-report")["rows"]
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert "q3-report" in narrow(shell.says("dataset", "snapshots", "totals"))
    assert "choose another name" in shell.fails("dataset", "snapshot", "totals", "q3-report")
    shell.says("dataset", "snapshot", "totals", "q3-report", "--delete")
    assert shell.json("dataset", "snapshots", "totals")["snapshots"] == []


def test_verification_names_what_differs_and_ends_with_one(shell: Shell, shop: Library) -> None:
    good = shell.says("dataset", "verify", "totals")
    assert good.startswith("totals is as it was committed: 2 objects in 2 partitions, ")
    assert "Nothing to compare in part 0, 1" in shell.says("dataset", "verify", "orders")
    _, version = shop.version("totals")
    key = next(each for each in shop.keys(version) if each.endswith(".parquet"))
    shop.served.app.objects.delete(key)
    code, out, err = shell.run("dataset", "verify", "totals")
    assert (code, err) == (1, "")
    assert key in out
    assert out.endswith("1 missing; read 2 objects in 2 partitions.\n")
    assert "as it was committed" in shell.says("dataset", "verify", "totals", "--partition", "4-6")
    code, out, _ = shell.run("dataset", "verify", "totals", "--json")
    assert (code, '"problem": "missing"' in out) == (1, True)
    assert "no partition 7" in shell.fails("dataset", "verify", "totals", "--partition", "7")


def test_readers_and_owner_are_set(shell: Shell, shop: Library) -> None:
    shell.says("role", "add", "analysts")
    said = narrow(shell.says("dataset", "read-roles", "totals", "analysts"))
    assert said.endswith("those who may deploy its DAG and analysts.\n")
    assert shell.says("dataset", "read-roles", "totals") == said
    assert "analysts" in shell.says("dataset", "show", "totals")
    assert "take it out there first" in shell.fails("role", "remove", "analysts")
    assert "no role others" in shell.fails("dataset", "read-roles", "totals", "others")
    assert "analysts" not in shell.says("dataset", "read-roles", "totals", "--clear")
    shell.says("member", "add", "bob", "--role", "reader")
    assert shell.says("dataset", "owner", "totals", "bob") == "totals belongs to bob.\n"
    assert "No member eve" in shell.fails("dataset", "owner", "totals", "eve")
    assert "creator of its DAG" in shell.says("dataset", "owner", "totals")


def _retired(shop: Library) -> UUID:
    _, version = shop.version("totals")
    shop.next_version("totals")
    shop.next_version("totals")
    return version


def test_a_purge_is_previewed_confirmed_and_taken_back(shell: Shell, shop: Library) -> None:
    version = str(_retired(shop))
    preview = narrow(shell.says("dataset", "purge", "totals"))
    assert [line[-1] for line in words(preview)[:3]] == [
        "no: current",
        "no: rollback",
        "yes",
    ]
    assert "--yes" in shell.fails("dataset", "purge", "totals", "--version", version)
    assert "Say which" in shell.fails("dataset", "purge", "totals", "--yes")
    current = str(shop.version("totals")[1])
    refused = shell.fails("dataset", "purge", "totals", "--version", current, "--yes")
    assert "It is what readers get now." in refused
    marked = narrow(shell.says("dataset", "purge", "totals", "--version", version, "--yes"))
    assert "takes no new reader, and is deleted in 1 d" in marked
    assert "purging" in shell.says("dataset", "versions", "totals")
    kept = shell.says("dataset", "purge", "totals", "--version", version, "--cancel")
    assert kept == f"{version} stays.\n"
    assert shell.json("dataset", "purge", "totals")["freed_bytes"] > 0


def test_storage_is_shown_by_version(shell: Shell, shop: Library) -> None:
    version = _retired(shop)
    shown = shell.says("storage")
    narrow(shown)
    (retired,) = [line for line in words(shown) if "retired" in line]
    name, _, dag_version, rows, stored, superseded, freed, _ = retired
    assert (name, dag_version, rows, superseded) == ("totals", "1", "6", "0 B")
    assert stored == freed
    assert f"a purge would free {freed}." in shown
    assert len(shell.json("storage", "--dag", "shop")["versions"]) == 5
    shop.change(
        "INSERT INTO snapshots (org_id, snapshot_name, dataset_name, created_at)"
        " SELECT org_id, 'q3', dataset_name, created_at FROM publications"
        " WHERE dataset_name = 'totals'"
    )
    shop.change(
        "INSERT INTO snapshot_parts SELECT s.org_id, s.snapshot_name, 0, v.dataset_uuid,"
        " v.dataset_version, 1, 1 FROM snapshots s, dataset_versions v"
        " WHERE v.dataset_version = %(v)s",
        v=version,
    )
    assert "a purge would free 0 B." in shell.says("storage")
    assert "Nothing is stored" in shell.says("storage", "--dag", "other")


def test_a_part_is_declared_invalid_with_a_reason(shell: Shell, shop: Library) -> None:
    assert "Nothing of orders" in shell.says("dataset", "invalidations", "orders")
    said = narrow(
        shell.says(
            "dataset", "invalidate", "orders", "--from", "5", "--to", "9",
            "--reason", "The provider sent wrong amounts.",
        )
    )  # fmt: skip
    assert said.startswith("Declared orders invalid (5-9): ")
    shell.says("dataset", "invalidate", "totals", "--all", "--reason", "New prices.")
    shown = narrow(shell.says("dataset", "invalidations", "orders"))
    assert "5-9" in shown
    assert "The provider sent wrong amounts." in shown
    answer = shell.json("dataset", "invalidations", "totals")["invalidations"]
    assert [each["reason"] for each in answer] == ["New prices."]
    assert "--from and --to" in shell.fails("dataset", "invalidate", "orders", "--reason", "x")
    assert "--from and --to" in shell.fails(
        "dataset", "invalidate", "orders", "--reason", "x", "--from", "5"
    )
