"""EMR Serverless: what it may cost, what its runs may reach, and who may start them."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib.metadata import version
from typing import Any
from uuid import UUID

import pytest

from infra.costs import ceiling, one_run
from infra.emr_code import ENTRY_POINT
from infra.environments import (
    DRIVER_GB,
    DRIVER_VCPUS,
    ENVIRONMENTS,
    EXECUTOR_GB,
    EXECUTOR_VCPUS,
    Emr,
)
from infra.stacks.emr import RELEASE
from tests.infra.templates import CLOUD, Resource, Templates, listed
from trace_core.settings import Settings
from trace_core.spark.layout import RunFolder
from trace_core.tasks.model import staging_prefix

ORG, TASK = UUID(int=1), UUID(int=2)
SPARK_OF = {"emr-spark-8.0.0": "4.0.2"}


def _application(templates: Templates, environment: str) -> dict[str, Any]:
    (found,) = templates.resources(environment, "AWS::EMRServerless::Application")
    return found.properties


def _role(templates: Templates, environment: str) -> Resource:
    (found,) = [
        each
        for each in templates.resources(environment, "AWS::IAM::Role")
        if each.properties.get("RoleName") == f"trace-{environment}-spark"
    ]
    return found


def _emr(environment: str) -> Emr:
    found = ENVIRONMENTS[environment].emr
    assert found is not None
    return found


@pytest.mark.parametrize("environment", CLOUD)
def test_the_application_runs_the_spark_that_runs_here(
    templates: Templates, environment: str
) -> None:
    application = _application(templates, environment)
    assert application["ReleaseLabel"] == RELEASE
    assert SPARK_OF[RELEASE].split(".")[:2] == version("pyspark").split(".")[:2]
    assert application["Type"] == "SPARK"
    assert application["Architecture"] == ENVIRONMENTS[environment].architecture.value.upper()


@pytest.mark.parametrize("environment", CLOUD)
def test_nothing_is_paid_for_while_nothing_runs(templates: Templates, environment: str) -> None:
    application = _application(templates, environment)
    assert "InitialCapacity" not in application
    stop = application["AutoStopConfiguration"]
    assert stop["Enabled"] is True
    assert stop["IdleTimeoutMinutes"] <= 15
    assert application["AutoStartConfiguration"] == {"Enabled": True}


@pytest.mark.parametrize("environment", CLOUD)
def test_every_run_that_is_let_in_finds_room_for_driver_and_one_executor(
    templates: Templates, environment: str
) -> None:
    emr = _emr(environment)
    application = _application(templates, environment)
    limits = application["MaximumCapacity"]
    assert limits == {
        "Cpu": f"{emr.vcpus} vCPU",
        "Memory": f"{emr.memory_gb} GB",
        "Disk": f"{emr.disk_gb} GB",
    }
    assert application["SchedulerConfiguration"] == {"MaxConcurrentRuns": emr.runs}
    assert emr.runs * (DRIVER_VCPUS + EXECUTOR_VCPUS) <= emr.vcpus
    assert emr.runs * (DRIVER_GB + EXECUTOR_GB) <= emr.memory_gb
    # Each worker has 20 GB of its own.
    assert emr.runs * 2 * 20 <= emr.disk_gb
    assert DRIVER_VCPUS + emr.executors * EXECUTOR_VCPUS <= emr.vcpus, "one run alone"


@pytest.mark.parametrize("environment", CLOUD)
def test_a_worker_holds_its_heap_and_what_spark_takes_beside_it(
    templates: Templates, environment: str
) -> None:
    (defaults,) = _application(templates, environment)["RuntimeConfiguration"]
    given = defaults["Properties"]
    assert defaults["Classification"] == "spark-defaults"
    for who, worker in (("driver", DRIVER_GB), ("executor", EXECUTOR_GB)):
        heap = int(given[f"spark.{who}.memory"].removesuffix("g"))
        assert worker / 2 < heap * 1.1 <= worker


@pytest.mark.parametrize("environment", CLOUD)
def test_runs_stand_in_no_network(templates: Templates, environment: str) -> None:
    assert "NetworkConfiguration" not in _application(templates, environment)


@pytest.mark.parametrize("environment", CLOUD)
def test_only_emr_takes_the_role_and_only_for_our_application(
    templates: Templates, environment: str
) -> None:
    (trust,) = _role(templates, environment).properties["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
        "ArnLike": {"aws:SourceArn": {"Fn::GetAtt": ["Application", "Arn"]}},
    }


@pytest.mark.parametrize("environment", CLOUD)
def test_runs_reach_objects_and_nothing_else_and_cannot_write_where_rows_are_committed(
    templates: Templates, environment: str
) -> None:
    role = _role(templates, environment)
    assert "ManagedPolicyArns" not in role.properties
    (policy,) = role.properties["Policies"]
    writing = set()
    for statement in policy["PolicyDocument"]["Statement"]:
        actions = set(listed(statement["Action"]))
        assert all(each.startswith("s3:") for each in actions)
        if actions & {"s3:PutObject", "s3:DeleteObject"}:
            (resource,) = listed(statement["Resource"])
            writing.add(resource["Fn::Join"][1][1])
    assert writing == {"/org/*/run/*", "/spark-logs/*"}
    own = RunFolder(ORG, TASK, attempt=1, start_number=1)
    for key in (own.payload, own.result, own.output(0), own.exports(TASK)):
        assert fnmatch(f"/{key}", "/org/*/run/*")
    committed = staging_prefix(ORG, TASK, TASK, TASK, 1, 1, 0)
    assert not any(fnmatch(f"/{committed}", each) for each in writing)


@pytest.mark.parametrize("environment", CLOUD)
def test_the_role_is_passed_to_emr_alone(templates: Templates, environment: str) -> None:
    passing = [
        statement
        for function in templates.functions(environment).values()
        for policy in templates.role_of(environment, function).properties["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "iam:PassRole" in listed(statement["Action"])
    ]
    assert passing
    for statement in passing:
        condition = statement["Condition"]["StringEquals"]
        assert condition == {"iam:PassedToService": "emr-serverless.amazonaws.com"}


@pytest.mark.parametrize("environment", CLOUD)
def test_the_entry_point_is_the_one_of_the_jobs(templates: Templates, environment: str) -> None:
    told = templates.functions(environment)["outbox_relay"].properties["Environment"]["Variables"]
    key = str(told["TRACE_EMR_ENTRY_POINT"]).rpartition("/")[2].rstrip("'}")
    shipped = templates.folder / environment / f"asset.{key}"
    assert shipped.read_text(encoding="utf-8") == ENTRY_POINT.read_text(encoding="utf-8")
    assert str(told["TRACE_EMR_CODE"]).rstrip("'}").endswith(".zip")
    assert Settings.model_fields["emr_code"].description


@pytest.mark.parametrize("environment", CLOUD)
def test_what_spark_says_ends_with_the_other_logs(templates: Templates, environment: str) -> None:
    monitoring = _application(templates, environment)["MonitoringConfiguration"]
    assert "/spark-logs/" in str(monitoring["S3MonitoringConfiguration"]["LogUri"])
    (objects,) = [
        each
        for each in templates.resources(environment, "AWS::S3::Bucket")
        if each.logical_id.startswith("Objects")
    ]
    (ending,) = [
        rule
        for rule in objects.properties["LifecycleConfiguration"]["Rules"]
        if rule.get("ExpirationInDays")
    ]
    assert ending["Prefix"] == "spark-logs/"
    assert ending["ExpirationInDays"] == ENVIRONMENTS[environment].log_days


@pytest.mark.parametrize("environment", CLOUD)
def test_the_beginning_and_the_end_of_a_run_of_ours_are_told_to_emr_events(
    templates: Templates, environment: str
) -> None:
    (rule,) = [
        each.properties
        for each in templates.resources(environment, "AWS::Events::Rule")
        if "EventPattern" in each.properties
    ]
    pattern = rule["EventPattern"]
    assert pattern["source"] == ["aws.emr-serverless"]
    assert pattern["detail-type"] == ["EMR Serverless Job Run State Change"]
    assert set(pattern["detail"]["state"]) == {"RUNNING", "SUCCESS", "FAILED", "CANCELLED"}
    (application,) = pattern["detail"]["applicationId"]
    assert "ApplicationId" in str(application), "another application of the account is none of ours"
    (target,) = rule["Targets"]
    assert "EmrEvents" in str(target["Arn"])


@pytest.mark.parametrize("environment", CLOUD)
def test_all_runs_at_once_cost_no_more_than_the_ceiling_that_is_told(environment: str) -> None:
    emr = _emr(environment)
    smallest = one_run(DRIVER_VCPUS + EXECUTOR_VCPUS, DRIVER_GB + EXECUTOR_GB)
    largest = one_run(
        DRIVER_VCPUS + emr.executors * EXECUTOR_VCPUS, DRIVER_GB + emr.executors * EXECUTOR_GB
    )
    assert smallest <= largest <= ceiling(emr)
    assert emr.runs * smallest <= ceiling(emr)


def test_an_environment_without_emr_has_no_stack_for_it(templates: Templates) -> None:
    assert ENVIRONMENTS["local"].emr is None
    assert "emr" not in templates.stacks("local")
    assert {"emr"} <= templates.stacks("prod")
