"""Queues: encrypted, TLS-only, with a dead-letter queue, and read by the worker function."""

from __future__ import annotations

import pytest

from infra.environments import ENVIRONMENTS
from tests.infra.templates import EVERYWHERE, Templates
from trace_core.kernel.limits import WAKE_FANOUT


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_org_has_a_queue_that_ends_in_a_dead_letter_queue_of_its_own(
    templates: Templates, environment: str
) -> None:
    queues = {
        each.properties["QueueName"]: each
        for each in templates.resources(environment, "AWS::SQS::Queue")
    }
    data = ENVIRONMENTS[environment]
    names = {data.queue_name(org) for org in data.orgs}
    assert set(queues) == names | {f"{name}-dlq" for name in names}
    for name in names:
        redrive = queues[name].properties["RedrivePolicy"]
        dead = queues[f"{name}-dlq"]
        assert redrive["deadLetterTargetArn"]["Fn::GetAtt"][0] == dead.logical_id
        assert 3 <= redrive["maxReceiveCount"] <= 10
        kept = dead.properties["MessageRetentionPeriod"]
        assert kept > queues[name].properties["MessageRetentionPeriod"], "age counts from the send"


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_queue_is_encrypted_and_refuses_plain_http(
    templates: Templates, environment: str
) -> None:
    refusing = {
        each["Ref"]
        for policy in templates.resources(environment, "AWS::SQS::QueuePolicy")
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for each in policy.properties["Queues"]
    }
    for queue in templates.resources(environment, "AWS::SQS::Queue"):
        assert queue.properties["SqsManagedSseEnabled"] is True
        assert queue.logical_id in refusing, queue.logical_id


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_the_worker_reads_every_org_within_its_concurrency(
    templates: Templates, environment: str
) -> None:
    data = ENVIRONMENTS[environment]
    worker = templates.functions(environment)["worker"]
    mappings = templates.resources(environment, "AWS::Lambda::EventSourceMapping")
    queues = {each.logical_id: each for each in templates.resources(environment, "AWS::SQS::Queue")}
    read = set()
    for mapping in mappings:
        properties = mapping.properties
        assert properties["FunctionName"] == {"Ref": worker.logical_id}
        assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert properties["BatchSize"] == WAKE_FANOUT
        queue = queues[properties["EventSourceArn"]["Fn::GetAtt"][0]]
        visibility = queue.properties["VisibilityTimeout"]
        assert visibility >= 6 * worker.properties["Timeout"]
        read.add(queue.properties["QueueName"])
    assert read == {data.queue_name(org) for org in data.orgs}
    bounds = [mapping.properties["ScalingConfig"]["MaximumConcurrency"] for mapping in mappings]
    assert sorted(bounds) == sorted(org.worker_concurrency for org in data.orgs)
    assert sum(bounds) <= data.concurrency["worker"], "SQS would be throttled, and messages lost"


def test_orgs_of_an_environment_differ_in_name_and_id() -> None:
    for data in ENVIRONMENTS.values():
        assert len({org.name for org in data.orgs}) == len(data.orgs)
        assert len({org.org_id for org in data.orgs}) == len(data.orgs)
        assert all(len(data.queue_name(org)) + len("-dlq") <= 80 for org in data.orgs)
