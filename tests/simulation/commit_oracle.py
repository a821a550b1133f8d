"""What must hold in every state of the small worlds of commits, said of their tables alone.

It shares no code with the services: it reads the rows as they were kept, and what the world itself
has seen happen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

TASKS = ("A", "B")
Table = list[dict[str, Any]]


@dataclass(frozen=True)
class Commit:
    """One that the world saw happen: its number, and the row that its attempt wrote."""

    number: int
    task: str
    attempt: int
    pin: int

    @property
    def value(self) -> str:
        return f"{self.task}{self.attempt}@{self.pin}"


@dataclass(frozen=True)
class History:
    """What happened outside of the tables, or is forgotten there."""

    commits: tuple[Commit, ...] = ()
    """In the order in which they happened."""
    claimed: Mapping[str, int] = field(default_factory=dict)
    """The newest attempt of each task that was claimed."""
    begun: Mapping[str, int] = field(default_factory=dict)
    """The newest attempt of each task that took over in the data database."""
    retried: str = ""
    """The tasks that a person queued again."""
    read: tuple[tuple[str, ...], ...] = ()
    """The rows of each pin, as its first reader got them."""


@dataclass(frozen=True)
class Seen:
    """One state: the tables, by the names that the world has for what is in them."""

    tables: Mapping[str, str]
    names: Mapping[str, str]
    """`A` and `B` by the id of the task."""
    version: str
    """Of the dataset that both write."""
    is_s3: bool

    @cached_property
    def rows(self) -> dict[str, Table]:
        return {name: json.loads(text) for name, text in self.tables.items()}

    def of(self, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The rows of a table that belong to one of the tasks."""
        for row in self.rows[table]:
            if row["task_id"] in self.names:
                yield self.names[row["task_id"]], row

    @cached_property
    def waiting(self) -> dict[str, dict[str, Any]]:
        return {**dict(self.of("ready")), **dict(self.of("delayed"))}

    @cached_property
    def leased(self) -> dict[str, dict[str, Any]]:
        return dict(self.of("leases"))

    @cached_property
    def ended(self) -> dict[str, str]:
        return {name: row["outcome"] for name, row in self.of("attempts") if row["final"]}

    @cached_property
    def failures(self) -> dict[str, int]:
        return {name: row["failures"] for name, row in {**self.waiting, **self.leased}.items()}

    @cached_property
    def counter(self) -> dict[str, Any]:
        (row,) = (e for e in self.rows["version_counters"] if e["dataset_version"] == self.version)
        return row

    @property
    def readable(self) -> int:
        return int(self.counter["readable"])

    @cached_property
    def commits(self) -> Table:
        return self.rows["commits"]

    @cached_property
    def records(self) -> Table:
        return [] if self.is_s3 else self.rows["records"]

    @cached_property
    def events(self) -> Table:
        return [e for e in self.rows["events"] if e["dataset_version"] == self.version]

    @cached_property
    def downstream(self) -> Counter[int]:
        """Tasks that commits have made, by the number of the commit."""
        made = [t for t in self.rows["tasks"] if t["dataset_version"] == self.version]
        return Counter(int(task["revision"]) for task in made)

    @property
    def is_over(self) -> bool:
        return set(self.ended) == set(self.names.values())

    def rows_at(self, pin: int) -> tuple[str, ...]:
        """What the table holds for a pin, by plain comparison."""
        return tuple(
            row["value"]
            for row in self.rows["rows"]
            if row["_from"] <= pin and (row["_to"] is None or row["_to"] > pin)
        )

    def commits_at(self, pin: int) -> Table:
        return [
            row
            for row in self.commits
            if row["number"] <= pin and (row["replaced_at"] is None or row["replaced_at"] > pin)
        ]

    def key(self) -> str:
        """All that the next action can depend on, without times, tokens and ids."""
        said: list[Any] = []
        for table in ("ready", "delayed"):
            for name, row in self.of(table):
                fence = (row["attempt"], row["lease_sequence"], row["lease_token"] is None)
                said.append((table, name, *fence, row["failures"], row["lapses"]))
        for name, row in self.of("leases"):
            canceled = row["canceled_at"] is not None
            said.append(
                ("lease", name, row["attempt"], row["lease_sequence"], row["failures"], canceled)
            )
        for name, row in self.of("attempts"):
            said.append(
                ("attempt", name, row["attempt"], row["outcome"], row["final"], row["late"],
                 row["body_digest"] is None, row["error_code"])
            )  # fmt: skip
        for name, row in self.of("commits"):
            said.append(
                ("commit", row["number"], name, row["attempt"], row["lease_sequence"],
                 row["replaces"], row["replaced_at"], _pins(row))
            )  # fmt: skip
        for event in self.events:
            said.append(("event", event["number"], event["revision"], event["attempt"],
                         self.names[event["producer_task_id"]], event["rewrites"]))  # fmt: skip
        said.append((self.counter["last_number"], self.readable, sorted(self.downstream.items())))
        said.append([(name, row["attempt"]) for name, row in self.of("task_outputs")])
        if not self.is_s3:
            said += self._of_data()
        return repr(said)

    def _of_data(self) -> Iterator[Any]:
        for name, row in self.of("fences"):
            yield ("fence", name, row["epoch"], row["attempt"], row["lease_sequence"])
        for name, row in self.of("records"):
            yield (
                "record", row["number"], name, row["attempt"], row["lease_sequence"],
                row["replaces"], row["replaced_at"], row["registered_at"] is not None,
            )  # fmt: skip
        for name, row in self.of("completions"):
            yield ("completion", name, row["attempt"], _pins(row))
        yield self.tables["rows"], self.tables["versions"], self.tables["numbers"]


def _pins(row: Mapping[str, Any]) -> list[int]:
    return [pin["number"] for pin in row["input_pins"]]


def problems(before: Seen, after: Seen, history: History) -> Iterator[str]:
    """What is wrong with a state, or with the way into it."""
    yield from _places(after)
    yield from _numbers(before, after, history)
    yield from _writers(after, history)
    yield from _announced(after, history)
    pins = [commit.pin for commit in history.commits]
    if pins != sorted(pins):
        yield f"a commit of older inputs came last: {pins}"
    tasks = [commit.task for commit in history.commits]
    if len(tasks) != len(set(tasks)):
        yield f"a task has committed twice: {tasks}"


def _places(after: Seen) -> Iterator[str]:
    places = Counter([*after.waiting, *after.leased, *after.ended])
    for name in after.names.values():
        if places[name] != 1:
            yield f"task {name} is in {places[name]} places"


def _numbers(before: Seen, after: Seen, history: History) -> Iterator[str]:
    given = [commit.number for commit in history.commits]
    if given != list(range(1, len(given) + 1)):
        yield f"numbers are not in the order of commits, or not contiguous: {given}"
    stored = [row["number"] for row in (after.commits if after.is_s3 else after.records)]
    if sorted(given) != stored:
        yield f"commits {given} have happened, and {stored} are stored"
    registered = {row["number"] for row in after.commits}
    marked = {row["number"] for row in after.records if row["registered_at"] is not None}
    if not marked <= registered:
        yield f"{sorted(marked)} are marked, and {sorted(registered)} are registered"
    expected = next(n for n in range(len(given) + 1) if n + 1 not in registered)
    if after.readable != expected:
        yield f"{after.readable} is readable, and {sorted(registered)} are registered"
    if after.readable < before.readable:
        yield f"readable went back from {before.readable} to {after.readable}"


def _writers(after: Seen, history: History) -> Iterator[str]:
    """Registered and recorded under the attempt and the pins that wrote it."""
    happened = {commit.number: commit for commit in history.commits}
    for table in ("commits",) if after.is_s3 else ("commits", "records"):
        for name, row in after.of(table):
            commit = happened.get(row["number"])
            if commit is None:
                continue  # said by its number
            if (name, row["attempt"]) != (commit.task, commit.attempt):
                yield f"{table} has {name}{row['attempt']} as the writer of {commit}"
            if table == "commits" and _pins(row) != [commit.pin]:
                yield f"{table} has the pins {_pins(row)} for {commit}"
            if row["replaces"] != row["number"] - 1:
                yield f"{table} says that {row['number']} replaced {row['replaces']}"
            later = row["number"] + 1
            known = after.commits if table == "commits" else after.records
            is_replaced = any(each["number"] == later for each in known)
            if row["replaced_at"] != (later if is_replaced else None):
                yield f"{table} has {row['number']} replaced at {row['replaced_at']}"


def _announced(after: Seen, history: History) -> Iterator[str]:
    """Exactly one event, and one task of it, for each commit that can be read."""
    wanted = [
        (commit.number, commit.task, commit.attempt, commit.number > 1)
        for commit in sorted(history.commits, key=lambda each: each.number)[: after.readable]
    ]
    told = [
        (event["revision"], after.names[event["producer_task_id"]], event["attempt"],
         event["rewrites"])
        for event in after.events
    ]  # fmt: skip
    if told != wanted:
        yield f"announced {told} instead of {wanted}"
    if after.downstream != Counter({number: 1 for number, *_ in wanted}):
        yield f"commits {wanted} have made tasks {dict(after.downstream)}"


def unfinished(seen: Seen, history: History) -> str | None:
    """What a drained world still has to do."""
    if not seen.is_over:
        return f"only {seen.ended} have ended"
    if seen.readable != len(history.commits):
        return f"{seen.readable} of {len(history.commits)} commits are readable"
    unmarked = [row["number"] for row in seen.records if row["registered_at"] is None]
    return f"{unmarked} are not marked as registered" if unmarked else None
