"""Credentials of one attempt: the operator role, narrowed by a session policy."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from trace_core.adapters.aws.calls import calling
from trace_core.kernel.errors import TooLarge
from trace_core.ports.credential_issuer import Credentials, check_prefixes

if TYPE_CHECKING:
    from mypy_boto3_sts import STSClient

_SERVICE = "The credential service"
_POLICY_MAX = 2048
"""What a session policy may have, in characters; emulators do not check."""
_SHORTEST, _LONGEST = timedelta(minutes=15), timedelta(hours=1)
"""A role that assumed another one gets an hour at most; a longer task asks again."""
_NOT_IN_A_NAME = re.compile(r"[^\w+=,.@-]", re.ASCII)


class StsCredentialIssuer:
    """`CredentialIssuer`: `AssumeRole` with a policy that names this attempt's prefixes."""

    def __init__(self, client: STSClient, *, role_arn: str, bucket: str) -> None:
        self._client = client
        self._role_arn = role_arn
        self._bucket = bucket

    def issue(
        self,
        *,
        name: str,
        read_prefixes: Sequence[str],
        write_prefixes: Sequence[str],
        lifetime: timedelta,
    ) -> Credentials:
        policy = json.dumps(
            session_policy(self._bucket, read_prefixes, write_prefixes), separators=(",", ":")
        )
        if len(policy) > _POLICY_MAX:
            raise TooLarge(
                "The task has more prefixes than its credentials can name.", limit=_POLICY_MAX
            )
        seconds = int(min(max(lifetime, _SHORTEST), _LONGEST).total_seconds())
        with calling(_SERVICE):
            answer = self._client.assume_role(
                RoleArn=self._role_arn,
                RoleSessionName=_NOT_IN_A_NAME.sub("-", f"trace-{name}")[:64],
                Policy=policy,
                DurationSeconds=seconds,
            )
        found = answer["Credentials"]
        return Credentials(
            root=f"s3://{self._bucket}/",
            environment={
                "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
                "AWS_SESSION_TOKEN": found["SessionToken"],
            },
            expires_at=found["Expiration"],
        )


def session_policy(
    bucket: str, read_prefixes: Sequence[str], write_prefixes: Sequence[str]
) -> dict[str, Any]:
    """Read under the first, write under the second, list neither's neighbours. Nothing else.

    What an attempt wrote it may also read back: multipart uploads and checks need that.
    """
    check_prefixes((*read_prefixes, *write_prefixes))
    arn = f"arn:aws:s3:::{bucket}"
    readable = list(dict.fromkeys((*read_prefixes, *write_prefixes)))
    statements: list[dict[str, Any]] = []
    if readable:
        statements.append(_allow(["s3:GetObject"], [f"{arn}/{each}*" for each in readable]))
        statements.append(
            {
                **_allow(["s3:ListBucket"], [arn]),
                "Condition": {"StringLike": {"s3:prefix": [f"{each}*" for each in readable]}},
            }
        )
    if write_prefixes:
        actions = ["s3:PutObject", "s3:AbortMultipartUpload"]
        statements.append(_allow(actions, [f"{arn}/{each}*" for each in write_prefixes]))
    if not statements:
        # An empty policy is refused, and none at all would give the whole role.
        statements.append({"Effect": "Deny", "Action": "*", "Resource": "*"})
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}
