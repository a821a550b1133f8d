"""Custom resources of CloudFormation, which LocalStack gets from us."""

from __future__ import annotations

import json
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import WaiterError

from tests.localstack.functions import Deployed, deployed
from tests.localstack_server import LocalStack

ANSWERS = """
    import http.client, json
    from urllib.parse import urlsplit

    def handler(event, context):
        wish = event["ResourceProperties"]["Wish"]
        if wish == "silence":
            return None
        url = urlsplit(event["ResponseURL"])
        body = {
            "Status": "FAILED" if wish == "failure" else "SUCCESS",
            "Reason": "as it was wished",
            "PhysicalResourceId": event.get("PhysicalResourceId", "thing-1"),
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
            "Data": {"Heard": f"{event['RequestType']} {wish}"},
        }
        connection = http.client.HTTPConnection(url.hostname, url.port)
        connection.request("PUT", f"{url.path}?{url.query}", json.dumps(body))
        print("answered", event["RequestType"], body["PhysicalResourceId"])
        connection.getresponse().read()
"""


@pytest.fixture
def function(localstack: LocalStack) -> Iterator[Deployed]:
    with deployed(localstack, ANSWERS) as function:
        yield function


def template(function: Deployed, wish: str) -> str:
    thing = {
        "Type": "Custom::Thing",
        "Properties": {"ServiceToken": function.arn, "Wish": wish},
    }
    heard = {"Value": {"Fn::GetAtt": ["Thing", "Heard"]}}
    return json.dumps({"Resources": {"Thing": thing}, "Outputs": {"Heard": heard}})


def heard(aws: boto3.Session, stack: str) -> str:
    (found,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    (output,) = found["Outputs"]
    return output["OutputValue"]


def test_a_function_is_asked_to_create_update_and_delete(
    localstack: LocalStack, aws: boto3.Session, function: Deployed
) -> None:
    client, stack = aws.client("cloudformation"), localstack.name("stack")
    client.create_stack(StackName=stack, TemplateBody=template(function, "one"))
    client.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    assert heard(aws, stack) == "Create one"
    client.update_stack(StackName=stack, TemplateBody=template(function, "two"))
    client.get_waiter("stack_update_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    assert heard(aws, stack) == "Update two"
    client.delete_stack(StackName=stack)
    client.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    assert function.wait_for_log("answered Delete thing-1")


@pytest.mark.parametrize(
    ("wish", "reason"), [("failure", "as it was wished"), ("silence", "without an answer")]
)
def test_a_function_that_fails_or_says_nothing_fails_the_stack(
    localstack: LocalStack, aws: boto3.Session, function: Deployed, wish: str, reason: str
) -> None:
    client, stack = aws.client("cloudformation"), localstack.name("stack")
    client.create_stack(StackName=stack, TemplateBody=template(function, wish))
    with pytest.raises(WaiterError):
        client.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    events = client.describe_stack_events(StackName=stack)["StackEvents"]
    assert any(reason in event.get("ResourceStatusReason", "") for event in events)
