"""What a need gives a function: the variables that `Settings` reads, and the rights to use them.

This is the contract between the stack and the code. `tests/infra` holds it against `Settings`, and
holds the rights against a table of what each function uses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam

from infra.constructs.queue_with_dlq import DEAD_SUFFIX
from infra.environments import Environment
from infra.functions import Function, Need
from trace_core.egress.model import read_upstreams

STATE_CONNECTIONS = 2
"""One handler runs at a time; a second connection is for what it reads inside a transaction."""
DATA_CONNECTIONS = 2
"""For each role that a function takes there; a worker reads or writes for two tasks at once."""
DATA_NAME = "trace_data"
SPARK_SERVICE = "emr-serverless.amazonaws.com"


@dataclass(frozen=True)
class EmrAddresses:
    """The application that runs PySpark operators, and what a run of it is made of."""

    application_id: str
    application_arn: str
    role_arn: str
    entry_point: str
    code: str
    logs: str
    runs: int


@dataclass(frozen=True)
class Addresses:
    """Where the things are that functions need."""

    environment: Environment
    state_secret: str
    state_secret_arn: str
    data_secret: str
    data_secret_arn: str
    bucket_name: str
    bucket_arn: str
    signing_key_arn: str
    worker_token_arns: Sequence[str]
    issuer: str
    operator_role_arn: str = ""
    internal_url: str = ""
    task_url: str = ""
    emr: EmrAddresses | None = None


def variables(function: Function, addresses: Addresses) -> dict[str, str]:
    """The environment of one function: every name is a field of `Settings`."""
    # Lambda lets functions write there and nowhere else. An emulator's functions share the folder
    # with whoever uses the machine, and have a home of their own.
    home = "~" if addresses.environment.built_for_this_machine else "/tmp/trace"  # noqa: S108
    found = {"TRACE_PROFILE": "aws", "TRACE_HOME": home}
    for need in sorted(function.needs):
        found.update(_variables(need, addresses))
    return found


def statements(
    function: Function, addresses: Addresses, stack: Stack
) -> dict[str, list[iam.PolicyStatement]]:
    """The rights of one function, by the need that asks for them."""
    found = {need.value: _statements(need, addresses, stack) for need in sorted(function.needs)}
    return {need: given for need, given in found.items() if given}


def _variables(need: Need, to: Addresses) -> Mapping[str, str]:
    environment = to.environment
    match need:
        case Need.STATE:
            return {
                "TRACE_STATE_SECRET": to.state_secret,
                "TRACE_STATE_CONNECTIONS": str(STATE_CONNECTIONS),
            }
        case Need.DATA:
            return {
                "TRACE_DATA_SECRET": to.data_secret,
                "TRACE_DATA_DATABASE": DATA_NAME,
                "TRACE_DATA_CONNECTIONS": str(DATA_CONNECTIONS),
            }
        case Need.WAKE_RELAY:
            return {"TRACE_RELAY_FUNCTION": environment.function_name("outbox_relay")}
        case Need.WAKE_DISPATCHER:
            return {"TRACE_DISPATCHER_FUNCTION": environment.function_name("dispatcher")}
        case Need.SIGN_TOKENS | Need.VERIFY_TOKENS:
            return {"TRACE_SIGNING_KEY": to.signing_key_arn}
        case (
            Need.READ_LOGS | Need.WRITE_LOGS | Need.READ_ROWS | Need.WRITE_ROWS | Need.CLEAN_STAGING
        ):
            return {"TRACE_BUCKET": to.bucket_name}
        case Need.SEND_WAKE_UPS | Need.HEAR_WAKE_UPS | Need.TEND_QUEUES:
            return {"TRACE_QUEUE_PREFIX": f"{environment.prefix}-"}
        case Need.INVOKE_RUNNER:
            return {
                "TRACE_RUNNER_FUNCTION": environment.function_name("operator_runner"),
                "TRACE_RUNNER_CONCURRENCY": str(environment.concurrency["operator_runner"]),
            }
        case Need.START_SPARK | Need.FOLLOW_SPARK:
            return _emr_variables(to, to.emr) if to.emr is not None else {}
        case (
            Need.WORKER_TOKENS | Need.USER_SECRETS | Need.WRITE_USER_SECRETS | Need.WEBHOOK_SECRETS
        ):
            return {"TRACE_SECRET_PREFIX": environment.prefix}
        case Need.INTERNAL_API:
            return {"TRACE_INTERNAL_URL": to.internal_url}
        case Need.TASK_API:
            return {"TRACE_TASK_API_URL": to.task_url}
        case Need.OPERATORS:
            modules = ",".join(environment.operator_modules)
            return {"TRACE_OPERATOR_MODULES": modules} if modules else {}
        case Need.CHILDREN:
            return {"TRACE_WORKER_CHILDREN": str(environment.worker_children)}
        case Need.UPSTREAMS:
            return _upstreams(environment)
        case Need.CREDENTIALS:
            return {
                "TRACE_OPERATOR_ROLE": to.operator_role_arn,
                "TRACE_BUCKET": to.bucket_name,
            }
        case Need.ARROW:
            # A layer, and nothing to be told.
            return {}
        case Need.IDENTITY:
            return {
                "TRACE_OIDC_ISSUER": to.issuer,
                "TRACE_OIDC_AUDIENCE": environment.identity.audience,
            }
    assert_never(need)


def _upstreams(environment: Environment) -> Mapping[str, str]:
    if not environment.upstreams:
        return {}
    text = json.dumps(environment.upstreams, separators=(",", ":"), default=dict)
    # What a worker would refuse is refused before it is deployed.
    read_upstreams(text)
    return {"TRACE_UPSTREAMS": text}


def _statements(need: Need, to: Addresses, stack: Stack) -> list[iam.PolicyStatement]:
    environment = to.environment
    match need:
        case Need.STATE:
            return [_allow(["secretsmanager:GetSecretValue"], [to.state_secret_arn])]
        case Need.DATA:
            return [_allow(["secretsmanager:GetSecretValue"], [to.data_secret_arn])]
        case Need.READ_ROWS:
            return [_listing(to), _allow(["s3:GetObject"], [_rows(to)])]
        case Need.WRITE_ROWS:
            # Written once and never over: an attempt that was here before finds its own object.
            return [_allow(["s3:GetObject", "s3:PutObject"], [_rows(to)])]
        case Need.CLEAN_STAGING:
            staged = f"{to.bucket_arn}/org/*/dataset/*/version/*/staging/*"
            return [_listing(to), _allow(["s3:DeleteObject"], [staged])]
        case Need.WAKE_RELAY:
            return [
                _allow(["lambda:InvokeFunction"], [_function(stack, environment, "outbox_relay")])
            ]
        case Need.WAKE_DISPATCHER:
            return [
                _allow(["lambda:InvokeFunction"], [_function(stack, environment, "dispatcher")])
            ]
        case Need.INVOKE_RUNNER:
            runner = _function(stack, environment, "operator_runner")
            return [_allow(["lambda:InvokeFunction"], [runner])]
        case Need.START_SPARK:
            return _start_spark(to, to.emr) if to.emr is not None else []
        case Need.FOLLOW_SPARK:
            return _follow_spark(to, to.emr) if to.emr is not None else []
        case Need.SIGN_TOKENS:
            return [_allow(["kms:Sign", "kms:GetPublicKey"], [to.signing_key_arn])]
        case Need.VERIFY_TOKENS:
            return [_allow(["kms:GetPublicKey"], [to.signing_key_arn])]
        case Need.READ_LOGS:
            listing = _allow(["s3:ListBucket"], [to.bucket_arn])
            listing.add_conditions({"StringLike": {"s3:prefix": "org/*/logs/*"}})
            return [listing, _allow(["s3:GetObject"], [f"{to.bucket_arn}/org/*/logs/*"])]
        case Need.WRITE_LOGS:
            return [_allow(["s3:PutObject"], [f"{to.bucket_arn}/org/*/logs/*"])]
        case Need.SEND_WAKE_UPS:
            return [_allow(["sqs:SendMessage", "sqs:GetQueueUrl"], _queues(stack, environment))]
        case Need.HEAR_WAKE_UPS:
            actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
            return [_allow(actions, _queues(stack, environment))]
        case Need.TEND_QUEUES:
            return [
                _allow(
                    ["sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:SendMessage"],
                    _queues(stack, environment),
                ),
                _allow(
                    [
                        *("sqs:GetQueueUrl", "sqs:GetQueueAttributes"),
                        *("sqs:ReceiveMessage", "sqs:DeleteMessage"),
                    ],
                    _queues(stack, environment, DEAD_SUFFIX),
                ),
            ]
        case Need.WORKER_TOKENS:
            return [_allow(["secretsmanager:GetSecretValue"], to.worker_token_arns)]
        case Need.USER_SECRETS:
            users = _secrets(stack, environment, "user/*")
            return [_allow(["secretsmanager:GetSecretValue"], [users])]
        case Need.WRITE_USER_SECRETS:
            # Never to be read: what a member wrote leaves the store only towards a worker.
            writing = [f"secretsmanager:{each}Secret" for each in ("Create", "Delete")]
            return [
                _allow(
                    [*writing, "secretsmanager:PutSecretValue"],
                    [_secrets(stack, environment, "user/*")],
                ),
                _allow(["secretsmanager:ListSecrets"], ["*"]),
            ]
        case Need.WEBHOOK_SECRETS:
            actions = [f"secretsmanager:{each}SecretValue" for each in ("Get", "Put")]
            webhooks = _secrets(stack, environment, "platform/*/webhook_*")
            return [_allow([*actions, "secretsmanager:CreateSecret"], [webhooks])]
        case Need.CREDENTIALS:
            return [_allow(["sts:AssumeRole"], [to.operator_role_arn])]
        case (
            Need.INTERNAL_API
            | Need.TASK_API
            | Need.OPERATORS
            | Need.CHILDREN
            | Need.UPSTREAMS
            | Need.IDENTITY
            | Need.ARROW
        ):
            # Reached over HTTP with a token, or not outside at all.
            return []
    assert_never(need)


def _emr_variables(addresses: Addresses, to: EmrAddresses) -> Mapping[str, str]:
    return {
        "TRACE_BUCKET": addresses.bucket_name,
        "TRACE_EMR_APPLICATION": to.application_id,
        "TRACE_EMR_ROLE": to.role_arn,
        "TRACE_EMR_ENTRY_POINT": to.entry_point,
        "TRACE_EMR_CODE": to.code,
        "TRACE_EMR_LOGS": to.logs,
        "TRACE_EMR_RUNS": str(to.runs),
    }


def _start_spark(addresses: Addresses, to: EmrAddresses) -> list[iam.PolicyStatement]:
    passing = _allow(["iam:PassRole"], [to.role_arn])
    passing.add_conditions({"StringEquals": {"iam:PassedToService": SPARK_SERVICE}})
    return [
        # A run whose id was lost is found by its name.
        _allow(["emr-serverless:StartJobRun", "emr-serverless:ListJobRuns"], [to.application_arn]),
        _watching(to),
        # A run is tagged as it begins.
        _allow(["emr-serverless:TagResource"], [_job_runs(to)]),
        passing,
        _listing(addresses, "org/*/run/*"),
        _allow(["s3:GetObject", "s3:PutObject"], [f"{addresses.bucket_arn}/org/*/run/*"]),
    ]


def _follow_spark(addresses: Addresses, to: EmrAddresses) -> list[iam.PolicyStatement]:
    """Look at runs, take over what they left, and tidy up behind them."""
    return [
        _watching(to),
        _listing(addresses, "org/*/run/*"),
        _allow(["s3:GetObject", "s3:DeleteObject"], [f"{addresses.bucket_arn}/org/*/run/*"]),
    ]


def _watching(to: EmrAddresses) -> iam.PolicyStatement:
    actions = ["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"]
    return _allow(actions, [_job_runs(to)])


def _job_runs(to: EmrAddresses) -> str:
    return f"{to.application_arn}/jobruns/*"


def _allow(actions: Sequence[str], resources: Iterable[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def _rows(to: Addresses) -> str:
    return f"{to.bucket_arn}/org/*/dataset/*"


def _listing(to: Addresses, prefix: str = "org/*/dataset/*") -> iam.PolicyStatement:
    listing = _allow(["s3:ListBucket"], [to.bucket_arn])
    listing.add_conditions({"StringLike": {"s3:prefix": prefix}})
    return listing


def _function(stack: Stack, environment: Environment, name: str) -> str:
    """By name: functions that call each other in a circle cannot refer to each other."""
    return stack.format_arn(
        service="lambda",
        resource="function",
        resource_name=environment.function_name(name),
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def _secrets(stack: Stack, environment: Environment, pattern: str) -> str:
    return stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{environment.prefix}/{pattern}",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def _queues(stack: Stack, environment: Environment, suffix: str = "") -> list[str]:
    return [
        stack.format_arn(service="sqs", resource=environment.queue_name(org) + suffix)
        for org in environment.orgs
    ]
