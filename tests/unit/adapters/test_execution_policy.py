"""The policy of a Spark run, judged by evaluating it as the service would."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.adapters.test_session_policy import NAMES, PREFIXES, allows
from trace_core.adapters.aws.emr_policy import POLICY_MAX, execution_policy
from trace_core.kernel.errors import Invalid, TooLarge
from trace_core.tasks.model import version_prefix

BUCKET = "trace-test"
CODE = ("s3://trace-test/code/main.py", "s3://trace-test/code/jobs.zip")
LOGS = "s3://trace-test/logs/t-1-1/"
ORG = UUID(int=1)
WRITE = f"org/{ORG}/run/{UUID(int=2)}/1-1/out/"


def policy(read: list[str], write: list[str]) -> str:
    return execution_policy(BUCKET, read, write, code=CODE, logs=LOGS)


def versions(count: int) -> list[str]:
    """Prefixes of dataset versions, each of another dataset."""
    return [version_prefix(ORG, UUID(int=100 + n), UUID(int=1000 + n)) for n in range(count)]


@given(
    read=PREFIXES.map(lambda found: found[:3]),
    write=PREFIXES.filter(bool).map(lambda found: found[:2]),
    key=st.lists(NAMES, min_size=1, max_size=4).map("/".join),
)
def test_a_key_is_open_exactly_under_the_prefixes_of_the_task(
    read: list[str], write: list[str], key: str
) -> None:
    found = json.loads(policy(read, write))
    readable = any(key.startswith(prefix) for prefix in read + write)
    writable = any(key.startswith(prefix) for prefix in write)
    assert allows(found, "s3:GetObject", key) == readable
    assert allows(found, "s3:ListBucket", None, key) == readable
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        assert allows(found, action, key) == writable
    for action in ("s3:PutBucketPolicy", "kms:Sign", "sts:AssumeRole", "emr-serverless:*"):
        assert not allows(found, action, key)


def test_a_run_reads_its_code_and_writes_its_own_log_and_no_other_one() -> None:
    found = json.loads(policy([], [WRITE]))
    assert allows(found, "s3:GetObject", "code/main.py")
    assert allows(found, "s3:GetObject", "code/jobs.zip")
    assert not allows(found, "s3:PutObject", "code/jobs.zip")
    assert not allows(found, "s3:GetObject", "code/other.zip")
    assert allows(found, "s3:PutObject", "logs/t-1-1/applications/a/driver.gz")
    assert not allows(found, "s3:PutObject", "logs/t-1-2/applications/a/driver.gz")


def test_a_prefix_that_another_one_covers_is_left_out() -> None:
    assert policy(["data/", "data/a/", "data/"], [WRITE]) == policy(["data/"], [WRITE])


def test_versions_that_do_not_fit_are_named_by_their_own_id_and_mean_the_same() -> None:
    exact = next(n for n in range(1, 99) if f"*/{UUID(int=1000)}/*" in policy(versions(n), [WRITE]))
    for count in (exact, exact + 3):
        text = policy(versions(count), [WRITE])
        assert len(text) <= POLICY_MAX
        found = json.loads(text)
        for each in versions(count):
            assert allows(found, "s3:GetObject", f"{each}staging/x.parquet")
            assert allows(found, "s3:ListBucket", None, f"{each}staging/")
        for each in (versions(count + 1)[-1], version_prefix(ORG, UUID(int=100), UUID(int=999))):
            assert not allows(found, "s3:GetObject", f"{each}staging/x.parquet")
            assert not allows(found, "s3:ListBucket", None, f"{each}staging/")
        assert not allows(found, "s3:PutObject", f"elsewhere/{WRITE.removeprefix('org/')}x")


def test_names_become_wider_before_rows_do() -> None:
    count = next(
        n
        for n in range(1, 99)
        if allows(json.loads(policy(versions(n), [WRITE])), "s3:ListBucket", None, versions(99)[-1])
    )
    found = json.loads(policy(versions(count), [WRITE]))
    assert not allows(found, "s3:GetObject", f"{versions(99)[-1]}x")
    assert not allows(found, "s3:ListBucket", None, f"org/{UUID(int=9)}/dataset/")


def test_what_still_does_not_fit_is_merged_to_the_folder_above_and_stays_in_its_org() -> None:
    read = versions(60)
    text = policy(read, [WRITE])
    assert len(text) <= POLICY_MAX
    found = json.loads(text)
    for each in read:
        assert allows(found, "s3:GetObject", f"{each}staging/x.parquet")
    assert not allows(found, "s3:GetObject", f"org/{UUID(int=9)}/dataset/x")
    assert not allows(found, "s3:GetObject", f"org/{ORG}/run/another/x")
    assert not allows(found, "s3:PutObject", f"{read[0]}x.parquet")


def test_code_is_named_by_the_beginning_of_its_hash_where_room_is_short() -> None:
    code = [f"s3://assets/{letter * 64}.zip" for letter in "ab"]
    text = execution_policy(BUCKET, versions(6), [WRITE], code=code, logs=LOGS)
    assert "arn:aws:s3:::assets/aaaaaaaaaaaaaaaa*" in text


def test_prefixes_of_different_orgs_are_never_merged() -> None:
    read = [version_prefix(UUID(int=n), UUID(int=n), UUID(int=n)) for n in range(60)]
    with pytest.raises(TooLarge):
        policy(read, [WRITE])


def test_write_prefixes_are_never_merged() -> None:
    write = [f"org/{ORG}/run/{UUID(int=n)}/1-1/out/" for n in range(60)]
    with pytest.raises(TooLarge):
        policy([], write)


def test_a_policy_of_2048_characters_is_taken_and_one_more_is_refused() -> None:
    """A read prefix stands in it twice, and the name of the log once."""
    sizes = {}
    for length in range(1, 1000):
        for logs in (LOGS, f"{LOGS[:-1]}2/"):
            try:
                text = execution_policy(BUCKET, [], ["p" * length + "/"], code=CODE, logs=logs)
            except TooLarge:
                sizes[length, logs] = POLICY_MAX + 1
            else:
                sizes[length, logs] = len(text)
    assert max(size for size in sizes.values() if size <= POLICY_MAX) >= POLICY_MAX - 2
    assert POLICY_MAX + 1 in sizes.values()


def test_a_run_that_may_write_nothing_is_refused() -> None:
    with pytest.raises(Invalid):
        policy(["data/"], [])


def test_another_partition_has_other_names() -> None:
    text = execution_policy(BUCKET, ["a/"], ["b/"], code=CODE, logs=LOGS, partition="aws-us-gov")
    assert "arn:aws-us-gov:s3:::" in text
    assert "arn:aws:s3" not in text
