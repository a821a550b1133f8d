"""Every object store: created once, replaced by comparison, listed in the order of S3."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.conformance.harness import ObjectStoreHarness
from trace_core.kernel.errors import Conflict, Invalid, NotFound
from trace_core.ports.object_store import ObjectStore

NO_KEYS = [
    *("", "/", "/a", "a/", "a//b", "../a", "a/../b", "a/..", ".", "a/./b"),
    *("a\0b", "\ud800", "x" * 1025, "é" * 513),
]
UNUSUAL_KEYS = [
    *("...", "..a/b..", "a b/c+d", "%2e%2e/x", "a\\b", "käse/🧀", "-", "~", "a?b#c", "'\";"),
    *("a=1/b=2", "/".join(["x" * 200] * 5)),
]


def keys(store: ObjectStore, prefix: str) -> list[str]:
    return [info.key for info in store.list(prefix)]


def test_a_created_object_is_read_back(objects: ObjectStoreHarness) -> None:
    info = objects.store.create("a/b/c.parquet", b"content")
    assert (info.key, info.size) == ("a/b/c.parquet", 7)
    assert objects.store.read("a/b/c.parquet") == b"content"
    assert objects.another().read("a/b/c.parquet") == b"content"
    assert objects.store.head("a/b/c.parquet") == info


@pytest.mark.parametrize("data", [b"", b"\0" * 10, bytes(range(256)) * 4096])
def test_any_bytes_are_kept(objects: ObjectStoreHarness, data: bytes) -> None:
    assert objects.store.create("data", data).size == len(data)
    assert objects.store.read("data") == data


def test_creating_a_key_that_exists_is_a_conflict_and_changes_nothing(
    objects: ObjectStoreHarness,
) -> None:
    objects.store.create("a", b"first")
    for store in (objects.store, objects.another()):
        with pytest.raises(Conflict):
            store.create("a", b"first")
        with pytest.raises(Conflict):
            store.create("a", b"second")
    assert objects.store.read("a") == b"first"


def test_of_many_creators_exactly_one_wins(objects: ObjectStoreHarness) -> None:
    for turn in range(5):

        def create(number: int, key: str = f"new/folder{turn}/race") -> int | None:
            try:
                objects.another().create(key, str(number).encode() * 1000)
            except Conflict:
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            [winner] = [found for found in pool.map(create, range(8)) if found is not None]
        assert objects.store.read(f"new/folder{turn}/race") == str(winner).encode() * 1000


def test_equal_content_has_an_equal_etag_and_other_content_another(
    objects: ObjectStoreHarness,
) -> None:
    one = objects.store.create("one", b"same").etag
    two = objects.store.create("two", b"same").etag
    three = objects.store.create("three", b"other").etag
    assert one == two != three


def test_replace_writes_whether_or_not_the_key_exists(objects: ObjectStoreHarness) -> None:
    first = objects.store.replace("a/b", b"1")
    second = objects.store.replace("a/b", b"22")
    assert objects.store.read("a/b") == b"22"
    assert objects.store.head("a/b") == second != first


def test_replace_with_an_etag_needs_that_version(objects: ObjectStoreHarness) -> None:
    first = objects.store.create("a", b"1")
    second = objects.store.replace("a", b"2", etag=first.etag)
    with pytest.raises(Conflict):
        objects.store.replace("a", b"3", etag=first.etag)
    assert objects.store.read("a") == b"2"
    objects.another().replace("a", b"3", etag=second.etag)
    assert objects.store.read("a") == b"3"


def test_replace_with_an_etag_of_nothing_is_a_conflict(objects: ObjectStoreHarness) -> None:
    etag = objects.store.create("a", b"1").etag
    objects.store.delete("a")
    with pytest.raises(Conflict):
        objects.store.replace("a", b"2", etag=etag)
    with pytest.raises(NotFound):
        objects.store.read("a")


def test_concurrent_compare_and_replace_lose_no_update(objects: ObjectStoreHarness) -> None:
    objects.store.create("counter", b"0")

    def add(count: int) -> None:
        store = objects.another()
        while count:
            etag = store.head("counter").etag
            data = store.read("counter")
            if store.head("counter").etag != etag:
                continue  # two looks that saw two versions
            try:
                store.replace("counter", str(int(data) + 1).encode(), etag=etag)
            except Conflict:
                continue
            count -= 1

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(add, 10) for _ in range(4)]:
            future.result(timeout=60)
    assert objects.store.read("counter") == b"40"


def test_a_range_is_what_the_object_has_of_it(objects: ObjectStoreHarness) -> None:
    objects.store.create("a", b"0123456789")
    assert objects.store.read_range("a", 0, 4) == b"0123"
    assert objects.store.read_range("a", 7, 3) == b"789"
    assert objects.store.read_range("a", 7, 100) == b"789"
    assert objects.store.read_range("a", 10, 5) == b""
    assert objects.store.read_range("a", 100, 5) == b""
    assert objects.store.read_range("a", 3, 0) == b""


def test_a_range_below_zero_is_refused(objects: ObjectStoreHarness) -> None:
    objects.store.create("a", b"0123456789")
    for start, length in ((-1, 1), (0, -1)):
        with pytest.raises(Invalid):
            objects.store.read_range("a", start, length)


def test_what_is_not_there_is_not_found(objects: ObjectStoreHarness) -> None:
    objects.store.create("folder/object", b"")
    for key in ("missing", "missing/deep/object", "folder", "folder/object/below"):
        with pytest.raises(NotFound):
            objects.store.read(key)
        with pytest.raises(NotFound):
            objects.store.head(key)
        with pytest.raises(NotFound):
            objects.store.read_range(key, 0, 1)


def test_deleting_is_final_and_repeatable(objects: ObjectStoreHarness) -> None:
    objects.store.create("a/b", b"1")
    objects.store.create("a/c", b"1")
    objects.store.delete("a/b")
    objects.store.delete("a/b")
    objects.store.delete("never/was")
    objects.store.delete("a")
    assert keys(objects.store, "") == ["a/c"]
    objects.store.create("a/b", b"2")
    assert objects.store.read("a/b") == b"2"


def test_a_key_above_deleted_ones_can_be_created(objects: ObjectStoreHarness) -> None:
    objects.store.create("a/b/c", b"1")
    objects.store.delete("a/b/c")
    objects.store.create("a", b"2")
    assert keys(objects.store, "") == ["a"]


def test_the_list_is_in_the_order_of_the_keys_bytes(objects: ObjectStoreHarness) -> None:
    given = ["a-b", "a.b", "a/b", "a/b-c", "a/b.c/d", "a0", "aa", "A", "a/ž", "a/z", "a/\U0001f980"]
    given += ["a/\uffee", "a b", "b/1/2/3", "b/1-1", "b/10", "b/2"]
    for key in given:
        objects.store.create(key, key.encode())
    assert keys(objects.store, "") == sorted(given, key=str.encode)
    for info in objects.store.list(""):
        assert info == objects.store.head(info.key)


def test_a_list_takes_any_prefix_of_keys(objects: ObjectStoreHarness) -> None:
    for key in ("logs/2026/01", "logs/2026/02", "logs/2027/01", "lot"):
        objects.store.create(key, b"")
    assert keys(objects.store, "logs/") == ["logs/2026/01", "logs/2026/02", "logs/2027/01"]
    assert keys(objects.store, "logs/2026") == ["logs/2026/01", "logs/2026/02"]
    assert keys(objects.store, "logs/2026/01") == ["logs/2026/01"]
    assert keys(objects.store, "lo") == [
        "logs/2026/01",
        "logs/2026/02",
        "logs/2027/01",
        "lot",
    ]
    assert keys(objects.store, "logs/2026/01/") == []
    assert keys(objects.store, "none/") == []


@pytest.mark.parametrize("key", NO_KEYS)
def test_what_is_no_key_is_refused_everywhere(objects: ObjectStoreHarness, key: str) -> None:
    store = objects.store
    for call in (store.read, store.head, store.delete):
        with pytest.raises(Invalid):
            call(key)
    for write in (store.create, store.replace):
        with pytest.raises(Invalid):
            write(key, b"")
    with pytest.raises(Invalid):
        store.read_range(key, 0, 1)
    with pytest.raises(Invalid):
        store.read_url(key, timedelta(minutes=1))


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//", "\0"])
def test_what_is_no_prefix_is_refused(objects: ObjectStoreHarness, prefix: str) -> None:
    with pytest.raises(Invalid):
        objects.store.list(prefix)


@pytest.mark.parametrize("key", UNUSUAL_KEYS)
def test_unusual_keys_are_kept_as_they_are(objects: ObjectStoreHarness, key: str) -> None:
    objects.store.create(key, b"1")
    assert objects.store.read(key) == b"1"
    assert keys(objects.store, "") == [key]
    assert objects.fetch(objects.store.read_url(key, timedelta(minutes=5))) == b"1"


def test_an_object_of_many_megabytes_is_written_whole_and_under_the_same_conditions(
    objects: ObjectStoreHarness,
) -> None:
    """Large enough to go in parts, where a store has them."""
    data = bytes(range(256)) * (66 * 1024)
    made = objects.store.create("large/a.bin", data)
    assert made.size == len(data) > 16 * 1024 * 1024
    assert objects.another().read("large/a.bin") == data
    assert objects.store.read_range("large/a.bin", len(data) - 3, 10) == data[-3:]
    assert objects.store.head("large/a.bin") == made
    with pytest.raises(Conflict):
        objects.store.create("large/a.bin", data + b"x")
    with pytest.raises(Conflict):
        objects.store.replace("large/a.bin", data + b"x", etag="another")
    assert objects.store.read("large/a.bin") == data
    replaced = objects.store.replace("large/a.bin", data + b"x", etag=made.etag)
    assert replaced.etag != made.etag
    assert objects.store.read("large/a.bin") == data + b"x"
    assert [info.key for info in objects.store.list("large/")] == ["large/a.bin"]
