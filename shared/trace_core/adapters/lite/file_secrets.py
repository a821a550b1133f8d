"""Secrets in files that only their owner can read: one file for each org and namespace."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from trace_core.adapters.lite.atomic_files import exclusive_lock, replace_file
from trace_core.kernel.errors import NotFound, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace, check_secret, check_secret_name


class FileSecretStore:
    """`SecretStore` in a folder; no value ever enters an error, a log or a repr."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser().resolve()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)

    def put(self, org_id: OrgId, namespace: Namespace, name: str, value: str) -> None:
        check_secret(name, value)
        with self._lock():
            values = self._read(org_id, namespace)
            values[name] = value
            self._write(org_id, namespace, values)

    def get(self, org_id: OrgId, namespace: Namespace, name: str) -> str:
        check_secret_name(name)
        value = self._read(org_id, namespace).get(name)
        if value is None:
            raise NotFound(name=name)
        return value

    def names(self, org_id: OrgId, namespace: Namespace) -> list[str]:
        return sorted(self._read(org_id, namespace))

    def delete(self, org_id: OrgId, namespace: Namespace, name: str) -> None:
        """Deleting what is not there is no error."""
        check_secret_name(name)
        with self._lock():
            values = self._read(org_id, namespace)
            if values.pop(name, None) is not None:
                self._write(org_id, namespace, values)

    def _lock(self) -> AbstractContextManager[None]:
        return exclusive_lock(self._folder / ".lock")

    def _file(self, org_id: OrgId, namespace: Namespace) -> Path:
        return self._folder / f"{org_id}.{Namespace(namespace).value}.json"

    def _read(self, org_id: OrgId, namespace: Namespace) -> dict[str, str]:
        try:
            descriptor = os.open(
                self._file(org_id, namespace), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            )
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Unavailable("The secrets cannot be read.") from error
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
        values = None
        with suppress(ValueError):
            values = json.loads(data)
        # Raised out here, since the parser's own error carries the whole text with it.
        if not isinstance(values, dict):
            raise Unavailable("A file of secrets is damaged.")
        return values

    def _write(self, org_id: OrgId, namespace: Namespace, values: dict[str, str]) -> None:
        try:
            replace_file(self._file(org_id, namespace), json.dumps(values).encode(), mode=0o600)
        except OSError as error:
            raise Unavailable("The secrets cannot be written.") from error
