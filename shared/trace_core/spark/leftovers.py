"""What a run leaves beside its rows: its log is kept with the attempt, copies are deleted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from trace_core.kernel.errors import Conflict, NotFound
from trace_core.ports.object_store import ObjectStore
from trace_core.spark.model import SparkRun
from trace_core.worker.logs import LOG_MAX, log_key

logger = logging.getLogger(__name__)


class Leftovers:
    """Nothing here fails a task."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def keep_log(self, run: SparkRun, fields: Mapping[str, Any]) -> None:
        """What the run printed, and how a failed one ended; a quiet success leaves none."""
        try:
            data = self._printed(run)
            if fields["status"] == "Failed":
                data += f"\n[{fields['error_code']}]\n{fields['error_message']}\n".encode()
            if data:
                key = log_key(run.org_id, run.task_id, run.attempt, run.lease_sequence)
                self._objects.create(key, data)
        except Conflict:
            logger.debug("%s already has a log", run)
        except Exception:
            logger.exception("the log of %s could not be kept", run)

    def _printed(self, run: SparkRun) -> bytes:
        try:
            size = self._objects.head(run.folder.log).size
        except NotFound:
            return b""
        if size <= LOG_MAX:
            return self._objects.read(run.folder.log)
        half = LOG_MAX // 2
        head = self._objects.read_range(run.folder.log, 0, half)
        tail = self._objects.read_range(run.folder.log, size - half, half)
        return head + f"\n[... {size - 2 * half} bytes left out ...]\n".encode() + tail

    def tidy(self, run: SparkRun) -> None:
        """Exports, and rows that were copied or do not count; payload, result and log stay."""
        try:
            for each in list(self._objects.list(run.folder.prefix)):
                if each.key not in run.folder.notes:
                    self._objects.delete(each.key)
        except Exception:
            logger.exception("what %s left could not be deleted", run)
