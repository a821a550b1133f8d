"""Every issuer of credentials: what was asked for can be read, and nonsense is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.harness import CredentialsHarness
from trace_core.kernel.errors import Invalid

HOUR = timedelta(hours=1)


def test_what_was_asked_for_can_be_read(issuers: CredentialsHarness) -> None:
    issuers.store.create("data/a/1.parquet", b"rows")
    found = issuers.issuer.issue(
        name="task-1", read_prefixes=["data/a/"], write_prefixes=["staging/1/"], lifetime=HOUR
    )
    assert issuers.read(found, "data/a/1.parquet") == b"rows"
    assert found.root.endswith("/")


def test_they_end_within_the_time_that_was_asked_for(issuers: CredentialsHarness) -> None:
    found = issuers.issuer.issue(
        name="task-1", read_prefixes=["data/a/"], write_prefixes=[], lifetime=HOUR
    )
    left = found.expires_at - datetime.now(UTC)
    assert timedelta(minutes=50) < left <= HOUR + timedelta(seconds=5)


def test_nobody_sees_them_by_printing_them(issuers: CredentialsHarness) -> None:
    found = issuers.issuer.issue(
        name="task-1", read_prefixes=["data/a/"], write_prefixes=[], lifetime=HOUR
    )
    assert not any(value in repr(found) for value in found.environment.values())


@pytest.mark.parametrize("name", ["", "a" * 500, "x", "a b/c:*", "ž\n"])
def test_any_name_will_do(issuers: CredentialsHarness, name: str) -> None:
    issuers.issuer.issue(name=name, read_prefixes=["data/a/"], write_prefixes=[], lifetime=HOUR)


@pytest.mark.parametrize(
    "prefix",
    ["data", "", "/", "../", "a/../b/", "data/*/", "data/?/", "${aws:username}/", "a//b/"],
)
def test_a_prefix_that_covers_more_than_a_folder_is_refused(
    issuers: CredentialsHarness, prefix: str
) -> None:
    for read, write in (([prefix], []), ([], [prefix])):
        with pytest.raises(Invalid):
            issuers.issuer.issue(
                name="task-1", read_prefixes=read, write_prefixes=write, lifetime=HOUR
            )
