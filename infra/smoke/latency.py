"""From an event to its claim: by a push with no schedule, and by a schedule with no push."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import psycopg
from psycopg.rows import namedtuple_row

from infra.environments import ENVIRONMENTS
from infra.smoke import history
from infra.smoke.errors import SmokeFailed
from trace_client import Client

DAG = "probe"
TEXT_LENGTH = 300_000
"""Longer than an invoke takes, so that the payload goes by reference."""
TICK_SECONDS = 60.0
_FILE = Path(__file__).with_name("probe.dag.yaml")
_PUSHES = ("TRACE_RELAY_FUNCTION", "TRACE_DISPATCHER_FUNCTION")
_POLL = 0.1
_ASK = 1.0
"""Seconds between two questions of a member, who has 100 requests in a minute."""


@dataclass(frozen=True)
class Claimed:
    """Seconds from the acceptance of one event to the claim of the tasks that it made."""

    by_worker: float
    by_function: float


class Probe:
    """A webhook source, and two jobs that its events reach."""

    def __init__(self, api: Client, dsn: str) -> None:
        self._api = api
        self._dsn = dsn
        self._source_id, self._secret = UUID(int=0), ""

    def deploy(self) -> None:
        text = _FILE.read_text(encoding="utf-8").replace("LONG", "x" * TEXT_LENGTH)
        self._api.deploy(text, _FILE.name)
        self._secret = self._api.rotate_hook_secret(DAG, "ask").secret
        self._source_id = self._api.hook(DAG, "ask").source_id

    def call(self, number: int) -> int:
        """Call the webhook for an event with that value; answers the number of its request."""
        request = {"start": number, "end": number}
        received = self._api.call_hook(
            self._source_id,
            request,
            secret=self._secret,
            event_key=f"probe-{number}",
            at=datetime.now(UTC),
        )
        return received.number

    def wait_until_quiet(self, seconds: float) -> None:
        """Until no wake-up is on its way: any of them makes a worker look for all there is."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            (depth,) = self._api.queues().queues
            if not depth.visible and not depth.in_flight:
                return
            time.sleep(_ASK)
        raise SmokeFailed(f"after {seconds:.0f} s there are still wake-ups: {depth}")

    def wait(self, number: int, seconds: float) -> Claimed:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            rows = self._rows(number)
            if len(rows) == 2 and all(row.outcome for row in rows):
                return _claimed(rows)
            time.sleep(_POLL)
        raise SmokeFailed(f"after {seconds:.0f} s the event is not worked on: {self._rows(number)}")

    def untouched(self, number: int) -> bool:
        """Whether the event is there, and none of its tasks was claimed."""
        rows = self._rows(number)
        return len(rows) == 2 and not any(row.leased or row.outcome for row in rows)

    def _rows(self, number: int) -> list[Any]:
        with psycopg.connect(self._dsn, row_factory=namedtuple_row) as connection:
            given = {"dag": DAG, "number": number}
            return connection.execute(history.SQL["claims_of_event"], given).fetchall()

    def counted(self) -> int:
        """In how many runs the function found its payload whole, which came by reference."""
        with psycopg.connect(self._dsn, row_factory=namedtuple_row) as connection:
            given = {"dag": DAG, "length": TEXT_LENGTH}
            rows: list[Any] = connection.execute(history.SQL["counted"], given).fetchall()
            return int(rows[0].number)


def _claimed(rows: list[Any]) -> Claimed:
    failed = [row.job for row in rows if row.outcome != "Completed"]
    if failed:
        raise SmokeFailed(f"tasks of the probe did not complete: {', '.join(failed)}")
    seconds = {row.job: (row.started_at - row.accepted_at).total_seconds() for row in rows}
    return Claimed(seconds["work"], seconds["count"])


@contextmanager
def schedules_off(session: boto3.Session) -> Iterator[int]:
    """Take the targets away from every schedule, and give them back; answers how many.

    LocalStack goes on with a rule that was disabled, so that would prove nothing.
    """
    client = session.client("events")
    prefix = ENVIRONMENTS["local"].prefix
    names = [rule["Name"] for rule in client.list_rules(NamePrefix=prefix)["Rules"]]
    targets = {name: client.list_targets_by_rule(Rule=name)["Targets"] for name in names}
    for name, found in targets.items():
        client.remove_targets(Rule=name, Ids=[target["Id"] for target in found])
    try:
        yield len(targets)
    finally:
        for name, found in targets.items():
            client.put_targets(Rule=name, Targets=found)


def run_dispatcher(session: boto3.Session) -> None:
    """Once, by hand, and wait for its end."""
    name = ENVIRONMENTS["local"].function_name("dispatcher")
    answer = session.client("lambda").invoke(FunctionName=name, Payload=b"{}")
    if "FunctionError" in answer:
        raise SmokeFailed(f"{name} failed: {answer['Payload'].read().decode()}")


def push_off(session: boto3.Session) -> int:
    """Tell no function whom to wake; answers how many were told before."""
    client = session.client("lambda")
    changed = []
    for function in client.list_functions()["Functions"]:
        given = function.get("Environment", {}).get("Variables", {})
        kept = {key: value for key, value in given.items() if key not in _PUSHES}
        if kept != given:
            name = function["FunctionName"]
            client.update_function_configuration(FunctionName=name, Environment={"Variables": kept})
            changed.append(name)
    for name in changed:
        client.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})
    return len(changed)
