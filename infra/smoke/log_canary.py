"""Nothing secret stands in what the functions wrote to CloudWatch Logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import boto3
import psycopg

_PATTERNS = {
    "a signed token": re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\."),
    "a worker token": re.compile(r"trw_[A-Za-z0-9_-]{20,}"),
    "a webhook secret": re.compile(r"whsec_[A-Za-z0-9+/=]{8,}"),
    "SQL": re.compile(r"\b(INSERT INTO|SELECT .+ FROM|UPDATE \w+ SET|DELETE FROM)\b"),
}


def lines(session: boto3.Session) -> list[str]:
    """Every line of every function."""
    logs = session.client("logs")
    groups = [
        each["logGroupName"]
        for page in logs.get_paginator("describe_log_groups").paginate()
        for each in page["logGroups"]
    ]
    return [
        event["message"]
        for group in groups
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group)
        for event in page["events"]
    ]


def lease_tokens(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT DISTINCT lease_token FROM attempts").fetchall()
    return [str(row[0]) for row in rows if row[0] is not None]


def problems(written: Iterable[str], secrets: Iterable[str]) -> Iterator[str]:
    """What was found, without showing it once more."""
    text = "\n".join(written)
    for name, pattern in _PATTERNS.items():
        if pattern.search(text):
            yield f"a log line shows {name}"
    number = sum(secret in text for secret in secrets)
    if number:
        yield f"log lines show {number} secrets or lease tokens"
