"""The session policy of an attempt, judged by evaluating it: emulators do not enforce it."""

from __future__ import annotations

import fnmatch
import json
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber
from hypothesis import given
from hypothesis import strategies as st

from trace_core.adapters.aws.sts import StsCredentialIssuer, session_policy
from trace_core.kernel.errors import TooLarge

BUCKET = "trace-test"
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_=", min_size=1, max_size=12)
PREFIXES = st.lists(st.lists(NAMES, min_size=1, max_size=3).map(lambda p: "/".join(p) + "/"))


def allows(policy: dict[str, Any], action: str, key: str | None, listed: str | None = None) -> bool:
    """A small evaluator of what these policies use; an explicit denial wins."""
    resource = f"arn:aws:s3:::{BUCKET}" + ("" if key is None else f"/{key}")
    verdict = False
    for statement in policy["Statement"]:
        actions, resources = statement["Action"], statement["Resource"]
        fits = any(fnmatch.fnmatchcase(action, each) for each in _many(actions)) and any(
            fnmatch.fnmatchcase(resource, each) for each in _many(resources)
        )
        for patterns in statement.get("Condition", {}).get("StringLike", {}).values():
            fits = fits and any(fnmatch.fnmatchcase(listed or "", each) for each in _many(patterns))
        if fits and statement["Effect"] == "Deny":
            return False
        verdict = verdict or fits
    return verdict


def _many(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@given(read=PREFIXES, write=PREFIXES, key=st.lists(NAMES, min_size=1, max_size=4).map("/".join))
def test_a_key_is_open_exactly_under_the_prefixes_that_were_given(
    read: list[str], write: list[str], key: str
) -> None:
    policy = session_policy(BUCKET, read, write)
    readable = any(key.startswith(prefix) for prefix in read + write)
    writable = any(key.startswith(prefix) for prefix in write)
    assert allows(policy, "s3:GetObject", key) == readable
    assert allows(policy, "s3:PutObject", key) == writable
    assert allows(policy, "s3:ListBucket", None, key) == readable
    for action in ("s3:DeleteObject", "s3:PutBucketPolicy", "kms:Sign", "sts:AssumeRole"):
        assert not allows(policy, action, key)


def test_a_prefix_does_not_cover_its_neighbour() -> None:
    policy = session_policy(BUCKET, ["data/a/"], ["staging/1/"])
    for key in ("data/ab/1", "data/a", "staging/11/x", "staging/1"):
        assert not allows(policy, "s3:GetObject", key)
        assert not allows(policy, "s3:PutObject", key)


def test_other_buckets_stay_closed() -> None:
    policy = session_policy("another-bucket", ["data/a/"], ["data/a/"])
    assert not allows(policy, "s3:GetObject", "data/a/1")


def test_nothing_asked_for_is_nothing_allowed() -> None:
    policy = session_policy(BUCKET, [], [])
    assert policy["Statement"], "an empty policy would be refused, and none gives the whole role"
    for action in ("s3:GetObject", "s3:PutObject", "s3:ListBucket"):
        assert not allows(policy, action, "a/b")


def issue(prefixes: list[str]) -> None:
    client = boto3.client(
        "sts", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    with Stubber(client) as stub:
        stub.add_client_error(
            "assume_role",
            "StubReached",
            expected_params={
                "RoleArn": ANY,
                "RoleSessionName": ANY,
                "Policy": ANY,
                "DurationSeconds": ANY,
            },
        )
        issuer = StsCredentialIssuer(client, role_arn="arn:aws:iam::1:role/operator", bucket=BUCKET)
        issuer.issue(
            name="t", read_prefixes=prefixes, write_prefixes=[], lifetime=timedelta(hours=1)
        )


def test_a_policy_of_2048_characters_is_sent_and_one_more_is_refused() -> None:
    """Each prefix stands in the policy twice, so its length grows by two for each character."""

    def size(length: int) -> int:
        return len(
            json.dumps(session_policy(BUCKET, ["p" * length + "/"], []), separators=(",", ":"))
        )

    longest = next(length for length in range(1, 1023) if size(length + 1) > 2048)
    assert 2047 <= size(longest) <= 2048
    with pytest.raises(Exception, match="refused the call"):
        issue(["p" * longest + "/"])
    with pytest.raises(TooLarge):
        issue(["p" * (longest + 1) + "/"])
