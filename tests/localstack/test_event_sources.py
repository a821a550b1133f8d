"""What calls functions on AWS calls them here: queues, rules, schedules, a REST API."""

from __future__ import annotations

import http.client
import json
import time
from urllib.parse import urlsplit

import pytest

from tests.localstack.functions import Deployed, deployed
from tests.localstack_server import ACCOUNT_ID, REGION, LocalStack

ECHO = """
    def handler(event, context):
        print("got", event)
"""


def test_queue_retries_only_the_failed_message_and_then_dead_letters_it(
    localstack: LocalStack,
) -> None:
    sqs, functions = localstack.session.client("sqs"), localstack.session.client("lambda")

    def arn(url: str) -> str:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return found["Attributes"]["QueueArn"]

    dead = sqs.create_queue(QueueName=localstack.name("dead"))["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 2})
    queue = sqs.create_queue(
        QueueName=localstack.name("queue"),
        Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "1"},
    )["QueueUrl"]
    for body in ("good", "bad"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    source = """
        def handler(event, context):
            failed = []
            for record in event["Records"]:
                print("received", record["body"], flush=True)
                if record["body"] == "bad":
                    failed.append({"itemIdentifier": record["messageId"]})
            return {"batchItemFailures": failed}
    """
    with deployed(localstack, source, timeout=1) as function:
        mapping = functions.create_event_source_mapping(
            EventSourceArn=arn(queue),
            FunctionName=function.name,
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )["UUID"]
        deadline, messages = time.monotonic() + 60, []
        while not messages and time.monotonic() < deadline:
            found = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=1)
            messages = found.get("Messages", [])
        functions.delete_event_source_mapping(UUID=mapping)
        assert [message["Body"] for message in messages] == ["bad"]
        assert len(function.wait_for_log("received bad")) == 2
        assert len(function.wait_for_log("received good")) == 1


def test_event_on_the_bus_invokes_the_target_of_its_rule(localstack: LocalStack) -> None:
    events = localstack.session.client("events")
    with deployed(localstack, ECHO) as function:
        rule = _rule(localstack, function, EventPattern=json.dumps({"source": ["trace.tests"]}))
        for source in ("trace.others", "trace.tests"):
            events.put_events(
                Entries=[{"Source": source, "DetailType": source, "Detail": '{"block": 7}'}]
            )
        lines = function.wait_for_log("'source': 'trace.tests'")
        assert "'detail': {'block': 7}" in lines[0]
        assert function.wait_for_log("got") == lines
        assert (
            rule
            in function.session.client("lambda").get_policy(FunctionName=function.name)["Policy"]
        )


def test_schedule_has_the_function_as_its_target(localstack: LocalStack) -> None:
    events = localstack.session.client("events")
    with deployed(localstack, ECHO) as function:
        rule = _rule(localstack, function, ScheduleExpression="rate(1 minute)")
        name = rule.rpartition("/")[2]
        assert events.describe_rule(Name=name)["State"] == "ENABLED"
        assert [target["Arn"] for target in events.list_targets_by_rule(Rule=name)["Targets"]] == [
            function.arn
        ]
        events.remove_targets(Rule=name, Ids=["function"])
        events.delete_rule(Name=name)


@pytest.mark.slow
def test_schedule_invokes_the_function_within_its_minute(localstack: LocalStack) -> None:
    with deployed(localstack, ECHO) as function:
        _rule(localstack, function, ScheduleExpression="rate(1 minute)")
        line = function.wait_for_log("Scheduled Event", seconds=90)[0]
        assert "'source': 'aws.events'" in line


def test_rest_api_hands_the_request_to_the_function_and_its_answer_back(
    localstack: LocalStack,
) -> None:
    api = localstack.session.client("apigateway")
    source = """
        import json
        def handler(event, context):
            seen = {name: event[name] for name in ("httpMethod", "path", "body", "resource")}
            seen["query"] = event["queryStringParameters"]
            seen["token"] = event["headers"].get("Authorization")
            return {"statusCode": 201, "headers": {"X-Trace": "yes"}, "body": json.dumps(seen)}
    """
    with deployed(localstack, source) as function:
        rest = api.create_rest_api(name=localstack.name("api"))
        parent = api.get_resources(restApiId=rest["id"])["items"][0]["id"]
        proxy = api.create_resource(restApiId=rest["id"], parentId=parent, pathPart="{proxy+}")
        place = {"restApiId": rest["id"], "resourceId": proxy["id"], "httpMethod": "ANY"}
        api.put_method(**place, authorizationType="NONE")
        invocations = f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions"
        api.put_integration(
            **place,
            type="AWS_PROXY",
            integrationHttpMethod="POST",
            uri=f"{invocations}/{function.arn}/invocations",
        )
        api.create_deployment(restApiId=rest["id"], stageName="v1")
        _permit(localstack, function, "apigateway", f"arn:aws:execute-api:{REGION}:{ACCOUNT_ID}:*")

        connection = http.client.HTTPConnection(urlsplit(localstack.endpoint).netloc, timeout=60)
        connection.request(
            "POST",
            f"/_aws/execute-api/{rest['id']}/v1/dags/demo?limit=5",
            body='{"name": "x"}',
            headers={"Authorization": "Bearer t", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        seen = json.loads(answer.read())
        connection.close()
    assert (answer.status, answer.headers["X-Trace"]) == (201, "yes")
    assert seen == {
        "httpMethod": "POST",
        "path": "/dags/demo",
        "resource": "/{proxy+}",
        "body": '{"name": "x"}',
        "query": {"limit": "5"},
        "token": "Bearer t",
    }


def _rule(localstack: LocalStack, function: Deployed, **when: str) -> str:
    events = localstack.session.client("events")
    name = localstack.name("rule")
    arn = events.put_rule(Name=name, **when)["RuleArn"]
    _permit(localstack, function, "events", arn)
    put = events.put_targets(Rule=name, Targets=[{"Id": "function", "Arn": function.arn}])
    assert put["FailedEntryCount"] == 0
    return arn


def _permit(localstack: LocalStack, function: Deployed, service: str, source: str) -> None:
    localstack.session.client("lambda").add_permission(
        FunctionName=function.name,
        StatementId=service,
        Action="lambda:InvokeFunction",
        Principal=f"{service}.amazonaws.com",
        SourceArn=source,
    )
