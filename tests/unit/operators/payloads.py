"""Task payloads for tests, in the one shape of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

ORG = "018f0000-0000-7000-8000-000000000001"


def make_payload(
    operator: str,
    config: Mapping[str, Any] | None = None,
    *,
    job: Mapping[str, Any] | None = None,
    trigger: Mapping[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    dataset, version = str(uuid4()), str(uuid4())
    task_id = str(uuid4())
    return {
        "task_id": task_id,
        "attempt": 1,
        "lease_sequence": 1,
        "lease_token": str(uuid4()),
        "lease_expires_at": "2030-01-01T00:02:00+00:00",
        "deadline_at": "2030-01-01T00:15:00+00:00",
        "org_id": ORG,
        "job": {
            "job_id": str(uuid4()),
            "dag_name": "chain",
            "dag_version": 1,
            "name": operator,
            "runtime": "worker",
            "activation": "reactive",
            "source_kind": None,
            "schedule": None,
            "execution_strategy": None,
            "update_strategy": "replace",
            "unique_key": None,
            "timeout_seconds": 30,
            "heartbeat_seconds": 10,
            **(job or {}),
        },
        "operator": operator,
        "config": dict(config or {}),
        "trigger": None
        if trigger is None
        else {
            "event_id": str(uuid4()),
            "producer_task_id": str(uuid4()),
            "input_index": 0,
            "dataset_uuid": str(uuid4()),
            "dataset_version": str(uuid4()),
            "revision": 0,
            **trigger,
        },
        "inputs": [],
        "outputs": [
            {
                "output_index": 0,
                "dataset_uuid": dataset,
                "dataset_version": version,
                "staging_prefix": f"org/{ORG}/staging/{task_id}/1-1/0/",
            }
        ],
        "state": [],
        "requests": [],
        "slot": None,
        "invalidation": None,
        "idempotency": {"producer_task_id": task_id, "key": task_id},
        "capability_token": "capability-token",
        **changes,
    }
