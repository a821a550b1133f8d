"""What a file system adds to the object store's contract: links, folders, crashes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.kernel.errors import Conflict, Invalid, NotFound, Unavailable

CREATE = """
import sys
from pathlib import Path
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.kernel.errors import Conflict
store = FileObjectStore(Path(sys.argv[1]))
won = 0
for number in range(20):
    try:
        store.create(f"race/{number}", sys.argv[2].encode())
        won += 1
    except Conflict:
        pass
print(won)
"""


@pytest.fixture
def store(tmp_path: Path) -> FileObjectStore:
    return FileObjectStore(tmp_path / "objects")


def test_keys_are_paths_below_the_root(store: FileObjectStore, tmp_path: Path) -> None:
    store.create("datasets/blocks/1.parquet", b"1")
    assert (tmp_path / "objects/datasets/blocks/1.parquet").read_bytes() == b"1"


def test_files_that_others_wrote_are_objects(store: FileObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "objects/spark/part=1"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"rows")
    [info] = store.list("spark/")
    assert (info.key, info.size) == ("spark/part=1/part-0.parquet", 4)
    assert info.etag == hashlib.sha256(b"rows").hexdigest()
    assert store.read(info.key) == b"rows"


def test_of_processes_that_create_at_once_one_wins_each_key(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", CREATE, str(tmp_path / "objects")]
    creators = [
        subprocess.Popen([*arguments, name], stdout=subprocess.PIPE, text=True) for name in "abc"
    ]
    assert sum(int(creator.communicate(timeout=30)[0]) for creator in creators) == 20


def test_a_link_in_place_of_an_object_is_not_followed(
    store: FileObjectStore, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    store.create("staging/ok", b"")
    (tmp_path / "objects/staging/link").symlink_to(secret)
    with pytest.raises(NotFound):
        store.read("staging/link")
    with pytest.raises(Conflict):
        store.create("staging/link", b"")
    assert [info.key for info in store.list("")] == ["staging/ok"]
    store.replace("staging/link", b"mine")
    assert secret.read_bytes() == b"secret"


def test_a_link_in_place_of_a_folder_is_not_followed(
    store: FileObjectStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "objects/link").symlink_to(outside)
    with pytest.raises(NotFound):
        store.read("link/secret")
    with pytest.raises(Invalid):
        store.create("link/new", b"")
    with pytest.raises(Invalid):
        store.replace("link/secret", b"")
    store.delete("link/secret")
    assert list(store.list("link/")) == []
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_pipe_in_place_of_an_object_blocks_nobody(store: FileObjectStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "objects/pipe")
    with pytest.raises(NotFound):
        store.read("pipe")
    assert list(store.list("")) == []


def test_a_key_above_or_below_an_object_is_refused(store: FileObjectStore) -> None:
    store.create("a/b", b"1")
    for key in ("a", "a/b/c"):
        with pytest.raises(Invalid):
            store.create(key, b"2")
        with pytest.raises(Invalid):
            store.replace(key, b"2")
    assert store.read("a/b") == b"1"


def test_a_part_longer_than_a_file_name_is_refused(store: FileObjectStore) -> None:
    with pytest.raises(Invalid):
        store.create("x" * 300, b"")
    with pytest.raises(NotFound):
        store.read("x" * 300)


def test_the_stores_own_folder_is_no_prefix(store: FileObjectStore) -> None:
    store.create("a", b"")
    for key in (".trace/locks/00", ".trace"):
        with pytest.raises(Invalid):
            store.read(key)
    assert [info.key for info in store.list("")] == ["a"]


def test_nothing_half_written_stays_behind(store: FileObjectStore, tmp_path: Path) -> None:
    store.create("a", b"1")
    store.replace("a", b"2")
    with pytest.raises(Conflict):
        store.create("a", b"3")
    with pytest.raises(Conflict):
        store.replace("a", b"4", etag="other")
    assert list((tmp_path / "objects/.trace/new").iterdir()) == []


def test_what_a_killed_writer_left_is_removed_after_a_day(tmp_path: Path) -> None:
    new = tmp_path / "objects/.trace/new"
    new.mkdir(parents=True)
    for name, age in (("old", 100_000), ("young", 10)):
        (new / name).write_bytes(b"half")
        os.utime(new / name, (time.time() - age, time.time() - age))
    FileObjectStore(tmp_path / "objects")
    assert [path.name for path in new.iterdir()] == ["young"]


def test_the_etag_follows_a_rewrite_of_the_same_size_and_moment(store: FileObjectStore) -> None:
    for turn in range(20):
        data = b"%02d" % turn
        store.replace("a", data)
        assert store.head("a").etag == hashlib.sha256(data).hexdigest()


def test_a_settled_etag_is_not_computed_again(
    store: FileObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"1")
    os.utime(tmp_path / "objects/a", (1_700_000_000, 1_700_000_000))
    expected = store.head("a")
    monkeypatch.setattr("trace_core.adapters.lite.file_objects._hash_file", lambda _: "again")
    assert store.head("a") == expected
    assert [*store.list("")] == [expected]


def test_a_full_disk_is_unavailable_and_leaves_nothing(
    store: FileObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(Unavailable):
        store.create("a", b"1")
    monkeypatch.undo()
    assert list((tmp_path / "objects/.trace/new").iterdir()) == []
    assert list(store.list("")) == []


def test_creates_and_deletes_in_one_folder_do_not_disturb_each_other(
    store: FileObjectStore, tmp_path: Path
) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from trace_core.adapters.lite.file_objects import FileObjectStore\n"
        "store = FileObjectStore(Path(sys.argv[1]))\n"
        "for _ in range(100): store.create('f/g/h/theirs', b''); store.delete('f/g/h/theirs')\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "objects")]
    with subprocess.Popen(arguments) as other:
        for _ in range(100):
            store.create("f/g/h/ours", b"")
            store.delete("f/g/h/ours")
    assert other.returncode == 0
    assert list(store.list("")) == []
