"""Alarms and runbooks lead to each other, and an alarm watches a figure that is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.alarms import ALARMS
from infra.environments import ENVIRONMENTS
from infra.functions import FUNCTIONS
from tests.infra.templates import EVERYWHERE, Templates

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
INDEX = (RUNBOOKS / "README.md").read_text(encoding="utf-8")


def _alarms(templates: Templates, environment: str) -> dict[str, dict[str, object]]:
    return {
        each.properties["AlarmName"].removeprefix(f"trace-{environment}-"): each.properties
        for each in templates.resources(environment, "AWS::CloudWatch::Alarm")
    }


def _runbook(properties: dict[str, object]) -> str:
    match = re.fullmatch(r"Runbook: docs/runbooks/(\w+)\.md", str(properties["AlarmDescription"]))
    assert match, properties["AlarmName"]
    return match[1]


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_alarm_names_a_runbook_and_tells_somebody(
    templates: Templates, environment: str
) -> None:
    (topic,) = templates.resources(environment, "AWS::SNS::Topic")
    for name, properties in _alarms(templates, environment).items():
        assert (RUNBOOKS / f"{_runbook(properties)}.md").exists(), name
        assert properties["AlarmActions"] == [{"Ref": topic.logical_id}]


def test_every_runbook_has_an_alarm(templates: Templates) -> None:
    named = {_runbook(each) for each in _alarms(templates, "prod").values()}
    written = {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"}
    assert named == written


def test_an_alarm_watches_a_metric_of_its_runbook_from_the_function_that_writes_it() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|\s*$", INDEX, re.M))
    for alarm in ALARMS:
        row = rows[alarm.metric]
        assert f"({alarm.runbook}.md)" in row, alarm.name
        writer = row.split(",")[0]
        apis = {"user_api", "internal_api", "task_api"}
        assert alarm.service in writer or (alarm.service in apis and "three APIs" in row)


def test_an_alarms_threshold_is_the_one_of_the_index() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|\s*$", INDEX, re.M))
    compared = 0
    for alarm in ALARMS:
        number = re.search(r"(?:over|under) (\d+)", rows[alarm.metric])
        if number:
            compared += 1
            assert alarm.threshold == float(number[1]), alarm.name
    assert compared >= 12


def test_every_metric_with_a_threshold_in_the_index_has_an_alarm() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|\s*$", INDEX, re.M)
    with_threshold = {name for name, row in rows if re.search(r"(?:over|under) \d", row)}
    # Lambda's own count of errors has those too that happened before our code began.
    assert with_threshold - {"FunctionErrors"} == {
        alarm.metric for alarm in ALARMS if alarm.metric != "TaskRetries"
    }


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_the_alarms_of_the_table_are_the_alarms_of_the_stack(
    templates: Templates, environment: str
) -> None:
    found = _alarms(templates, environment)
    for alarm in ALARMS:
        properties = found[alarm.name]
        assert properties["Namespace"] == "Trace"
        assert properties["MetricName"] == alarm.metric
        assert properties["Dimensions"] == [{"Name": "service", "Value": alarm.service}]
        assert properties["EvaluationPeriods"] == alarm.minutes
        silent = "breaching" if alarm.silence_alarms else "notBreaching"
        assert properties["TreatMissingData"] == silent


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_function_and_every_dead_letter_queue_is_watched(
    templates: Templates, environment: str
) -> None:
    found = _alarms(templates, environment)
    for function in FUNCTIONS:
        for metric in ("Errors", "Throttles"):
            watched = found[f"{metric}-{function.name}"]["Dimensions"]
            assert watched == [
                {"Name": "FunctionName", "Value": f"trace-{environment}-{function.name}"}
            ]
    dead = {
        each.properties["QueueName"]
        for each in templates.resources(environment, "AWS::SQS::Queue")
        if "RedrivePolicy" not in each.properties
    }
    watched_queues = {
        dimension["Value"]
        for properties in found.values()
        if properties["Namespace"] == "AWS/SQS"
        for dimension in properties["Dimensions"]  # type: ignore[attr-defined]
    }
    assert watched_queues == dead
    assert len(dead) == len(ENVIRONMENTS[environment].orgs)
