"""What each function may do is what it uses: no more, and no less."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.environments import ENVIRONMENTS
from infra.wildcards import REASONS, allowed, found_in, page
from tests.infra.templates import CLOUD, EVERYWHERE, Templates, listed

ROOT = Path(__file__).parents[2]
ARN = "arn:<AWS::Partition>:{service}:{region}:<AWS::AccountId>:"
ALWAYS = {"write its log"}
IN_THE_CLOUD = {"send traces", "have network interfaces"}
INTERFACES = (
    *("CreateNetworkInterface", "DescribeNetworkInterfaces", "DescribeSubnets"),
    *("DeleteNetworkInterface", "AssignPrivateIpAddresses", "UnassignPrivateIpAddresses"),
)

USES = {
    "migrate": {"read the state secret", "read the data secret", "read worker tokens"},
    "user_api": {
        *("read the state secret", "invoke outbox_relay", "invoke dispatcher"),
        *("list logs", "read logs"),
        *("find queues", "look at queues", "send to queues"),
        *("find dead letters", "look at dead letters", "take dead letters"),
        *("write user secrets", "list secrets", "make and read webhook secrets"),
        *("read the data secret", "list rows", "read rows"),
    },
    "internal_api": {
        *("read the state secret", "invoke outbox_relay", "sign tokens", "read public keys"),
        *("list rows", "read rows"),
    },
    "task_api": {
        *("read the state secret", "invoke outbox_relay", "sign tokens", "read public keys"),
        *("assume the operator role", "write logs", "list rows", "read rows"),
    },
    "dispatcher": {
        *("read the state secret", "invoke outbox_relay", "sign tokens", "read public keys"),
        *("read the data secret", "list rows", "read rows", "write rows", "write logs"),
        *("follow Spark runs", "take over what runs left"),
    },
    "emr_events": {
        *("read the state secret", "invoke outbox_relay", "sign tokens", "read public keys"),
        *("read the data secret", "list rows", "read rows", "write rows", "write logs"),
        *("follow Spark runs", "take over what runs left"),
    },
    "reaper": {"read the state secret", "invoke outbox_relay"},
    "outbox_relay": {
        *("read the state secret", "invoke operator_runner", "invoke dispatcher"),
        *("send to queues", "find queues", "read the data secret"),
        *("sign tokens", "read public keys", "list rows", "read rows"),
        *("start Spark runs", "follow Spark runs", "give runs their files"),
    },
    "staging_cleanup": {
        *("read the state secret", "read the data secret", "list rows", "delete what was staged"),
    },
    "operator_runner": {"read the data secret", "read rows", "write rows"},
    "worker": {
        *("receive from queues", "delete from queues", "look at queues"),
        *("send to queues", "find queues"),
        *("read worker tokens", "read user secrets", "write logs"),
        *("read the data secret", "read rows", "write rows"),
    },
}


def _meaning(environment: str, function: str) -> dict[str, set[tuple[str, str]]]:
    """Each use as actions on resources."""
    data = ENVIRONMENTS[environment]
    region = data.region

    def arn(service: str, rest: str) -> str:
        return ARN.format(service=service, region=region) + rest

    webhooks = arn("secretsmanager", f"secret:trace-{environment}/platform/*/webhook_*")
    users = arn("secretsmanager", f"secret:trace-{environment}/user/*")
    queues = [arn("sqs", data.queue_name(org)) for org in data.orgs]
    tokens = [f"<WorkerToken{org.org_id.hex}>" for org in data.orgs]
    state = "<StateSecretAttachment>"
    if environment == "local":
        state = arn("secretsmanager", "secret:trace-local/state-??????")
    rows = "<Objects.Arn>/org/*/dataset/*"
    log = "".join(word.capitalize() for word in function.split("_")) + "Log"
    return {
        "write its log": {
            (f"logs:{action}", f"<{log}.Arn>") for action in ("CreateLogStream", "PutLogEvents")
        },
        "send traces": {
            (f"xray:{action}", "*") for action in ("PutTraceSegments", "PutTelemetryRecords")
        },
        "have network interfaces": {(f"ec2:{action}", "*") for action in INTERFACES},
        "read the state secret": {("secretsmanager:GetSecretValue", state)},
        "read the data secret": {
            (
                "secretsmanager:GetSecretValue",
                "<DataSecretAttachment>" if data.data_database else state,
            )
        },
        "list rows": {("s3:ListBucket", "<Objects.Arn>")},
        "read rows": {("s3:GetObject", rows)},
        "write rows": {("s3:PutObject", rows)},
        "delete what was staged": {("s3:DeleteObject", f"{rows}/version/*/staging/*")},
        "assume the operator role": {
            (
                "sts:AssumeRole",
                f"arn:<AWS::Partition>:iam::<AWS::AccountId>:role/trace-{environment}-operator",
            )
        },
        "start Spark runs": {
            ("emr-serverless:StartJobRun", "<Application.Arn>"),
            ("emr-serverless:ListJobRuns", "<Application.Arn>"),
            ("emr-serverless:TagResource", "<Application.Arn>/jobruns/*"),
            ("iam:PassRole", "<Run.Arn>"),
        }
        if data.emr
        else set(),
        "follow Spark runs": {
            (f"emr-serverless:{action}JobRun", "<Application.Arn>/jobruns/*")
            for action in ("Get", "Cancel")
            if data.emr
        },
        "give runs their files": {
            (f"s3:{action}Object", "<Objects.Arn>/org/*/run/*")
            for action in ("Get", "Put")
            if data.emr
        },
        "take over what runs left": {
            (f"s3:{action}Object", "<Objects.Arn>/org/*/run/*")
            for action in ("Get", "Delete")
            if data.emr
        },
        "read worker tokens": {("secretsmanager:GetSecretValue", token) for token in tokens},
        "read user secrets": {("secretsmanager:GetSecretValue", users)},
        "write user secrets": {
            (f"secretsmanager:{action}", users)
            for action in ("CreateSecret", "PutSecretValue", "DeleteSecret")
        },
        "list secrets": {("secretsmanager:ListSecrets", "*")},
        "make and read webhook secrets": {
            (f"secretsmanager:{action}", webhooks)
            for action in ("CreateSecret", "PutSecretValue", "GetSecretValue")
        },
        **{
            f"invoke {name}": {
                ("lambda:InvokeFunction", arn("lambda", f"function:trace-{environment}-{name}"))
            }
            for name in ("outbox_relay", "dispatcher", "operator_runner")
        },
        "sign tokens": {("kms:Sign", "<SigningKey.Arn>")},
        "read public keys": {("kms:GetPublicKey", "<SigningKey.Arn>")},
        "list logs": {("s3:ListBucket", "<Objects.Arn>")},
        "read logs": {("s3:GetObject", "<Objects.Arn>/org/*/logs/*")},
        "write logs": {("s3:PutObject", "<Objects.Arn>/org/*/logs/*")},
        "send to queues": {("sqs:SendMessage", queue) for queue in queues},
        "find queues": {("sqs:GetQueueUrl", queue) for queue in queues},
        "receive from queues": {("sqs:ReceiveMessage", queue) for queue in queues},
        "delete from queues": {("sqs:DeleteMessage", queue) for queue in queues},
        "look at queues": {("sqs:GetQueueAttributes", queue) for queue in queues},
        "find dead letters": {("sqs:GetQueueUrl", f"{queue}-dlq") for queue in queues},
        "look at dead letters": {("sqs:GetQueueAttributes", f"{queue}-dlq") for queue in queues},
        "take dead letters": {
            (f"sqs:{action}Message", f"{queue}-dlq")
            for action in ("Receive", "Delete")
            for queue in queues
        },
    }


@pytest.mark.parametrize("environment", EVERYWHERE)
@pytest.mark.parametrize("name", USES)
def test_a_function_may_do_what_it_uses_and_nothing_else(
    templates: Templates, environment: str, name: str
) -> None:
    function = templates.functions(environment)[name]
    uses = USES[name] | ALWAYS | (IN_THE_CLOUD if environment in CLOUD else set())
    meaning = _meaning(environment, name)
    wanted = set[tuple[str, str]]().union(*(meaning[use] for use in uses))
    granted = set(templates.grants(environment, function))
    assert granted - wanted == set(), "more than it uses"
    assert wanted - granted == set(), "less than it uses"


def test_the_table_names_every_function(templates: Templates) -> None:
    assert set(USES) == set(templates.functions("prod"))


@pytest.mark.parametrize("environment", CLOUD)
def test_a_functions_own_code_may_not_touch_network_interfaces(
    templates: Templates, environment: str
) -> None:
    for name, function in templates.functions(environment).items():
        policies = templates.role_of(environment, function).properties["Policies"]
        (network,) = [each for each in policies if each["PolicyName"] == "network"]
        (denied,) = [
            each for each in network["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"
        ]
        assert set(denied["Action"]) == {f"ec2:{action}" for action in INTERFACES}
        assert str(denied["Condition"]).count(f"function:trace-{environment}-{name}") == 1


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_no_action_has_a_wildcard(templates: Templates, environment: str) -> None:
    kinds = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::KMS::Key", "AWS::S3::BucketPolicy")
    kinds += ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::ApiGateway::RestApi")
    seen = 0
    for kind in kinds:
        for resource in templates.resources(environment, kind):
            for statement in allowed(resource.body):
                seen += 1
                for action in listed(statement["Action"]):
                    assert "*" not in action, f"{resource.logical_id}: {action}"
    assert seen > 20


def test_every_wildcard_has_a_reason_and_every_reason_a_wildcard(assembly: Path) -> None:
    assert set(found_in(assembly)) == set(REASONS)


def test_the_page_of_wildcards_is_fresh(assembly: Path) -> None:
    written = (ROOT / "docs" / "reference" / "wildcards.md").read_text(encoding="utf-8")
    assert written == page(assembly), "run `make reference`"


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_only_the_functions_that_issue_tokens_can_use_the_signing_key(
    templates: Templates, environment: str
) -> None:
    (key,) = templates.resources(environment, "AWS::KMS::Key")
    signing = [
        statement
        for statement in key.properties["KeyPolicy"]["Statement"]
        if "kms:Sign" in listed(statement["Action"])
    ]
    assert len(signing) == 1
    named = str(signing[0]["Condition"]["ArnEquals"]["aws:PrincipalArn"])
    signers = {name for name in USES if f"role/trace-{environment}-{name}'" in named}
    assert signers == {name for name, uses in USES.items() if "sign tokens" in uses}
