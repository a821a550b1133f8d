"""The API Gateway REST proxy event, made from a plain request: local callers and tests use it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True)
class LocalContext:
    """What a Lambda would be told about its invocation."""

    aws_request_id: str
    function_name: str
    memory_limit_in_mb: int = 0
    invoked_function_arn: str = "local"


def rest_event(
    method: str,
    path: str,
    *,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    source_ip: str = "127.0.0.1",
    request_id: str = "local",
) -> dict[str, Any]:
    """A request as API Gateway would hand it to a Lambda."""
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=100)
    many: dict[str, list[str]] = {}
    for name, value in pairs:
        many.setdefault(name, []).append(value)
    try:
        text, encoded = body.decode("utf-8"), False
    except UnicodeDecodeError:
        text, encoded = base64.b64encode(body).decode("ascii"), True
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": dict(headers or {}),
        "multiValueHeaders": {name: [value] for name, value in (headers or {}).items()},
        "queryStringParameters": {name: values[-1] for name, values in many.items()} or None,
        "multiValueQueryStringParameters": many or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "stage": "",
            "path": path,
            "httpMethod": method,
            "requestId": request_id,
            "identity": {"sourceIp": source_ip},
        },
        "body": text if body else None,
        "isBase64Encoded": encoded,
    }
