"""Manifests against what is stored: names and sizes at a commit, contents when somebody doubts.

Needs no Arrow, so that whoever only registers commits does without it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from trace_core.kernel.errors import NotFound
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.errors import ManifestInvalid
from trace_core.storage.manifest import MANIFEST_NAME, parse_manifest, scope_folder
from trace_core.storage.model import Manifest, ManifestIdentity

_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Differences:
    """Where stored objects and their manifest disagree."""

    altered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.altered or self.missing or self.extra)

    def __str__(self) -> str:
        named = {"missing": self.missing, "extra": self.extra, "altered": self.altered}
        return "; ".join(f"{word}: {_listed(keys)}" for word, keys in named.items() if keys)


def verify_manifest(
    store: ObjectStore, key: str, prefix: str, expected: ManifestIdentity
) -> Manifest:
    """The manifest under that key, if it is the expected one and describes all that lies there.

    Compares names and sizes; `rehash` compares contents.
    """
    folder = scope_folder(prefix, expected.scope)
    if key != folder + MANIFEST_NAME:
        raise ManifestInvalid(
            f"The manifest of this scope is {folder + MANIFEST_NAME!r}, not {key!r}.", field="key"
        )
    try:
        data = store.read(key)
    except NotFound as error:
        raise ManifestInvalid(f"There is no manifest at {key!r}; write it last.") from error
    manifest = parse_manifest(data, prefix)
    for field, wanted in vars(expected).items():
        if getattr(manifest, field) != wanted:
            raise ManifestInvalid(
                f"The manifest's {field} is {getattr(manifest, field)}, expected {wanted}.",
                field=field,
            )
    listed = {each.key: each.bytes for each in manifest.objects}
    found = {each.key: each.size for each in store.list(folder) if each.key != key}
    differences = Differences(
        altered=_sorted(name for name in listed.keys() & found if listed[name] != found[name]),
        missing=_sorted(listed.keys() - found),
        extra=_sorted(found.keys() - listed),
    )
    if differences:
        raise ManifestInvalid(
            f"The objects under {folder!r} are not those of the manifest: {differences}.",
            altered=list(differences.altered[:_NAMES_SHOWN]),
            missing=list(differences.missing[:_NAMES_SHOWN]),
            extra=list(differences.extra[:_NAMES_SHOWN]),
        )
    return manifest


def rehash(store: ObjectStore, manifest: Manifest, *, folder: str | None = None) -> Differences:
    """Read every object again. `folder` is where they lie, for a manifest that lists none."""
    altered, missing = [], []
    for each in manifest.objects:
        try:
            data = store.read(each.key)
        except NotFound:
            missing.append(each.key)
            continue
        if len(data) != each.bytes or hashlib.sha256(data).hexdigest() != each.sha256:
            altered.append(each.key)
    if folder is None and manifest.objects:
        folder = manifest.objects[0].key.rpartition("/")[0] + "/"
    known = {each.key for each in manifest.objects} | {f"{folder}{MANIFEST_NAME}"}
    extra = {each.key for each in store.list(folder)} - known if folder else set()
    return Differences(_sorted(altered), _sorted(missing), _sorted(extra))


def _sorted(keys: Any) -> tuple[str, ...]:
    return tuple(sorted(keys))


def _listed(keys: tuple[str, ...]) -> str:
    shown = ", ".join(keys[:_NAMES_SHOWN])
    return shown if len(keys) <= _NAMES_SHOWN else f"{shown} and {len(keys) - _NAMES_SHOWN} more"
