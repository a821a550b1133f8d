"""Schedules once a minute, and three APIs of which two are private."""

from __future__ import annotations

from typing import Any

import pytest

from infra.environments import ENVIRONMENTS
from infra.functions import FUNCTIONS
from tests.infra.templates import CLOUD, EVERYWHERE, Resource, Templates

PATHS = {
    "user_api": ["v1", "{proxy+}"],
    "internal_api": ["internal", "{proxy+}"],
    "task_api": ["v1", "task", "{proxy+}"],
}


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_the_sweeping_functions_run_once_a_minute_and_no_others(
    templates: Templates, environment: str
) -> None:
    functions = templates.functions(environment)
    by_id = {function.logical_id: name for name, function in functions.items()}
    scheduled = set()
    for rule in templates.resources(environment, "AWS::Events::Rule"):
        if "EventPattern" in rule.properties:
            continue  # woken by something that happened, which is no schedule
        assert rule.properties["ScheduleExpression"] == "rate(1 minute)"
        assert rule.properties["State"] == "ENABLED"
        (target,) = rule.properties["Targets"]
        assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
        scheduled.add(by_id[target["Arn"]["Fn::GetAtt"][0]])
    assert scheduled == {each.name for each in FUNCTIONS if each.every_minute}
    assert scheduled == {"dispatcher", "reaper", "outbox_relay", "staging_cleanup"}


def _apis(templates: Templates, environment: str) -> dict[str, Resource]:
    return {
        each.properties["Name"].removeprefix(f"trace-{environment}-"): each
        for each in templates.resources(environment, "AWS::ApiGateway::RestApi")
    }


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_each_api_hands_one_path_to_its_own_function(
    templates: Templates, environment: str
) -> None:
    functions = templates.functions(environment)
    paths = {
        each.logical_id: each
        for each in templates.resources(environment, "AWS::ApiGateway::Resource")
    }
    apis = _apis(templates, environment)
    assert set(apis) == set(PATHS)
    for name, api in apis.items():
        (method,) = [
            each
            for each in templates.resources(environment, "AWS::ApiGateway::Method")
            if each.properties["RestApiId"] == {"Ref": api.logical_id}
        ]
        assert method.properties["Integration"]["Type"] == "AWS_PROXY"
        assert functions[name].logical_id in str(method.properties["Integration"]["Uri"])
        parts: list[str] = []
        at: Any = method.properties["ResourceId"]
        while "Ref" in at:
            parts.insert(0, paths[at["Ref"]].properties["PathPart"])
            at = paths[at["Ref"]].properties["ParentId"]
        assert parts == PATHS[name]


@pytest.mark.parametrize("environment", CLOUD)
def test_the_internal_and_the_task_api_answer_through_their_own_endpoint_only(
    templates: Templates, environment: str
) -> None:
    apis = _apis(templates, environment)
    assert apis["user_api"].properties["EndpointConfiguration"]["Types"] == ["REGIONAL"]
    seen = set()
    for name, endpoint in (("internal_api", "InternalApi"), ("task_api", "TaskApi")):
        properties = apis[name].properties
        configuration = properties["EndpointConfiguration"]
        assert configuration["Types"] == ["PRIVATE"]
        (bound,) = configuration["VpcEndpointIds"]
        assert f"Ref{endpoint}" in bound["Fn::ImportValue"]
        (denied,) = [each for each in properties["Policy"]["Statement"] if each["Effect"] == "Deny"]
        assert denied["Condition"] == {"StringNotEquals": {"aws:SourceVpce": bound}}
        seen.add(str(bound))
    assert len(seen) == 2, "reaching the one must say nothing about the other"


def test_runners_are_told_the_address_of_the_endpoint(templates: Templates) -> None:
    functions = templates.functions("prod")
    told = functions["operator_runner"].properties["Environment"]["Variables"]
    assert "RefTaskApi" in str(told["TRACE_TASK_API_URL"])
    told = functions["worker"].properties["Environment"]["Variables"]
    assert "RefInternalApi" in str(told["TRACE_INTERNAL_URL"])


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_stage_is_throttled_and_logs_neither_bodies_nor_headers(
    templates: Templates, environment: str
) -> None:
    stages = templates.resources(environment, "AWS::ApiGateway::Stage")
    assert len(stages) == 3
    for stage in stages:
        (settings,) = stage.properties["MethodSettings"]
        assert settings["ThrottlingRateLimit"] >= ENVIRONMENTS[environment].user_requests_per_second
        assert settings["ThrottlingBurstLimit"] > 0
        assert settings["DataTraceEnabled"] is False
        written = stage.properties["AccessLogSetting"]["Format"]
        assert "header" not in written.lower() and "authorizer" not in written.lower()
