"""What files add to the secret store's contract: permissions, damage, links."""

from __future__ import annotations

import traceback
from pathlib import Path
from uuid import UUID

import pytest

from trace_core.adapters.lite.file_secrets import FileSecretStore
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace

ORG = OrgId(UUID("01890000-0000-7000-8000-000000000001"))
USER = Namespace.USER


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    store = FileSecretStore(tmp_path / "secrets")
    store.put(ORG, USER, "a", "1")
    store.put(ORG, Namespace.PLATFORM, "a", "1")
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    files = list((tmp_path / "secrets").iterdir())
    assert {file.name for file in files} == {
        ".lock",
        f"{ORG}.user.json",
        f"{ORG}.platform.json",
    }
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_an_open_folder_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o755)
    FileSecretStore(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ['{"a": "s3cret-value"', '["s3cret-value"]', "\xff s3cret-value"])
def test_a_damaged_file_is_reported_without_its_content(tmp_path: Path, text: str) -> None:
    store = FileSecretStore(tmp_path)
    (tmp_path / f"{ORG}.user.json").write_text(text, encoding="latin-1")
    with pytest.raises(Unavailable) as caught:
        store.get(ORG, USER, "a")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.body())
    assert "s3cret-value" not in shown
    assert caught.value.__context__ is None
    with pytest.raises(Unavailable):
        store.put(ORG, USER, "b", "1")
    assert (tmp_path / f"{ORG}.user.json").read_text(encoding="latin-1") == text


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text('{"a": "1"}', encoding="utf-8")
    store = FileSecretStore(tmp_path / "secrets")
    (tmp_path / "secrets" / f"{ORG}.user.json").symlink_to(other)
    with pytest.raises(Unavailable):
        store.get(ORG, USER, "a")


def test_nothing_half_written_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileSecretStore(tmp_path)
    store.put(ORG, USER, "a", "1")

    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(Unavailable):
        store.put(ORG, USER, "a", "2")
    monkeypatch.undo()
    assert {path.name for path in tmp_path.iterdir()} == {".lock", f"{ORG}.user.json"}
    assert store.get(ORG, USER, "a") == "1"
