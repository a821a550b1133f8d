"""The client: one method for each route of the user API, by the name of its operation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_client.calls import part
from trace_client.datasets import DatasetCalls
from trace_client.deploys import DeployCalls
from trace_client.people import PeopleCalls
from trace_client.work import WorkCalls
from trace_core.http.work_answers import Received
from trace_core.identity import webhook_signature


class Client(WorkCalls, DeployCalls, DatasetCalls, PeopleCalls):
    """Methods raise `ApiError` for a refusal, and `Unavailable` when nobody answers."""

    def openapi(self) -> dict[str, Any]:
        """The document of this API."""
        reply = self._send("GET", "/v1/openapi.json", None, None, None)
        found: dict[str, Any] = json.loads(reply.body)
        return found

    def call_hook(
        self,
        source_id: UUID,
        request: Mapping[str, Any],
        *,
        secret: str,
        event_key: str,
        at: datetime,
    ) -> Received:
        """Call a webhook as another system would: the same event key makes nothing twice."""
        timestamp = str(int(at.timestamp()))
        body = json.dumps(request).encode()
        signature = "v1," + webhook_signature.sign(secret, event_key, timestamp, body)
        said = (event_key, timestamp, signature)
        return self._call(
            Received,
            "POST",
            f"/v1/hooks/{part(source_id)}",
            body=request,
            headers=dict(zip(webhook_signature.HEADERS, said, strict=True)),
        )
