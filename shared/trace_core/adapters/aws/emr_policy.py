"""The policy of one Spark run: its role, narrowed to the prefixes of one task.

A policy has 2,048 characters, and a prefix of ours about 130. What does not fit is first written
shorter and means the same: a folder that is named by a UUID is the only one of that name, and a few
letters of a hash are enough. Only then are read prefixes merged to a folder above them inside their
org: first those whose names may be listed, then those that may be read. What a run may write is
always written out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from trace_core.kernel.errors import Invalid, TooLarge
from trace_core.ports.credential_issuer import check_prefixes

POLICY_MAX = 2048
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HASH = re.compile(r"[0-9a-f]{64}\b")
_BRIEF = 16
_OWNER_PARTS = 2
"""`org/<id>/`: what lies above it belongs to others too."""


def execution_policy(
    bucket: str,
    read_prefixes: Sequence[str],
    write_prefixes: Sequence[str],
    *,
    code: Sequence[str],
    logs: str,
    partition: str = "aws",
) -> str:
    """As JSON. `code` are the addresses that a run is started from, `logs` the folder of its log.

    Raises `TooLarge` when the task has more prefixes than a policy can name.
    """
    check_prefixes((*read_prefixes, *write_prefixes))
    if not write_prefixes:
        raise Invalid("A Spark run writes its result somewhere: a write prefix is missing.")
    reads, writes = _without_covered(read_prefixes), _without_covered(write_prefixes)
    named = [_object(partition, each) for each in code]
    log = f"{_object(partition, logs)}*"
    root = f"arn:{partition}:s3:::{bucket}"
    found = _policy(root, reads, writes, [*reads, *writes], named, log)
    briefly = [_brief_name(each) for each in named]
    names = reads
    while len(found) > POLICY_MAX:
        listed = [_shortened(each) for each in (*names, *writes)]
        found = _policy(root, [_shortened(each) for each in reads], writes, listed, briefly, log)
        if len(found) <= POLICY_MAX:
            break
        if (fewer_names := _merged(names)) is not None:
            names = fewer_names
        elif (fewer := _merged(reads)) is not None:
            reads = fewer
        else:
            raise TooLarge(
                "The task has more prefixes than the policy of its run can name.", limit=POLICY_MAX
            )
    return found


def _policy(
    root: str,
    reads: Sequence[str],
    writes: Sequence[str],
    listed: Sequence[str],
    code: Sequence[str],
    log: str,
) -> str:
    own = [f"{root}/{each}*" for each in writes]
    statements = [
        _allow(["s3:GetObject"], [*code, *(f"{root}/{each}*" for each in reads), *own]),
        {
            **_allow(["s3:ListBucket"], [root]),
            "Condition": {
                "StringLike": {"s3:prefix": _one_or_more([f"{each}*" for each in listed])}
            },
        },
        # Spark moves its own files while it writes: it copies and deletes them.
        _allow(["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"], own),
        _allow(["s3:PutObject"], [log]),
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _allow(actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": _one_or_more(actions),
        "Resource": _one_or_more(resources),
    }


def _one_or_more(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def _object(partition: str, address: str) -> str:
    return f"arn:{partition}:s3:::{address.removeprefix('s3://')}"


def _without_covered(prefixes: Sequence[str]) -> list[str]:
    """Each once, and none that another one covers."""
    once = list(dict.fromkeys(prefixes))
    return [
        each for each in once if not any(each != other and each.startswith(other) for other in once)
    ]


def _shortened(prefix: str) -> str:
    """From its last folder that is named by a UUID; that of the org names much more."""
    parts = prefix.split("/")
    last = max((n for n, each in enumerate(parts) if _UUID.fullmatch(each)), default=0)
    return "/".join(["*", *parts[last:]]) if last >= _OWNER_PARTS else prefix


def _brief_name(resource: str) -> str:
    """An object that is named by the hash of what is in it."""
    folder, _, name = resource.rpartition("/")
    return f"{folder}/{name[:_BRIEF]}*" if _HASH.match(name) else resource


def _merged(prefixes: list[str]) -> list[str] | None:
    """The two that have most in common become the folder that holds both."""
    best: list[str] = []
    for number, one in enumerate(prefixes):
        for other in prefixes[number + 1 :]:
            shared = _shared(one, other)
            if len(shared) > max(len(best), _OWNER_PARTS):
                best = shared
    if not best:
        return None
    folder = "/".join(best) + "/"
    return [folder, *(each for each in prefixes if not each.startswith(folder))]


def _shared(one: str, other: str) -> list[str]:
    shared = []
    for left, right in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if left != right:
            break
        shared.append(left)
    return shared
