"""Every function: its code, its role, its limits, and its place in the network."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pytest

from infra.environments import ENVIRONMENTS, Database
from infra.functions import FUNCTIONS, Function, Place
from infra.needs import DATA_CONNECTIONS, STATE_CONNECTIONS
from tests.infra.templates import CLOUD, EVERYWHERE, Resource, Templates
from trace_core.kernel import limits

ROOT = Path(__file__).parents[2]
BY_NAME = {function.name: function for function in FUNCTIONS}


def test_every_folder_with_a_handler_is_a_function_and_the_other_way_round() -> None:
    folders = {file.parent.name for file in (ROOT / "functions").glob("*/handler.py")}
    assert set(BY_NAME) == folders


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_handler_can_be_imported_from_the_code_that_is_shipped(
    templates: Templates, environment: str
) -> None:
    functions = templates.functions(environment)
    assert set(functions) == set(BY_NAME)
    for name, function in functions.items():
        module, _, attribute = function.properties["Handler"].rpartition(".")
        assert module == f"functions.{name}.handler"
        assert callable(getattr(importlib.import_module(module), attribute))
        key = function.properties["Code"]["S3Key"].removesuffix(".zip")
        asset = templates.folder / environment / f"asset.{key}"
        shipped = {str(each.relative_to(asset)) for each in asset.rglob("*") if each.is_file()}
        source = ROOT / "functions" / name
        wanted = {str(each.relative_to(ROOT)) for each in source.glob("*.py")}
        assert f"functions/{name}/handler.py" in wanted
        assert shipped == wanted | {"functions/__init__.py"}


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_function_has_a_role_that_no_other_has(
    templates: Templates, environment: str
) -> None:
    functions = templates.functions(environment)
    roles = Counter(templates.role_of(environment, each).logical_id for each in functions.values())
    assert set(roles.values()) == {1}
    for name, function in functions.items():
        role = templates.role_of(environment, function).properties
        assert role["RoleName"] == f"trace-{environment}-{name}"
        assert "ManagedPolicyArns" not in role, "rights are stated one by one"
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_no_policy_stands_outside_the_roles(templates: Templates, environment: str) -> None:
    own = [
        each
        for each in templates.resources(environment, "AWS::IAM::Policy")
        if each.stack == "control_plane"
    ]
    assert own == []
    assert templates.resources(environment, "AWS::IAM::ManagedPolicy") == []


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_functions_that_nobody_waits_for_are_not_tried_again_by_lambda(
    templates: Templates, environment: str
) -> None:
    configured = {
        each.properties["FunctionName"]["Ref"]: each.properties
        for each in templates.resources(environment, "AWS::Lambda::EventInvokeConfig")
    }
    for name, function in templates.functions(environment).items():
        assert (function.logical_id in configured) == BY_NAME[name].asynchronous, name
    assert {each.asynchronous for each in FUNCTIONS if each.every_minute} == {True}
    assert BY_NAME["operator_runner"].asynchronous
    for properties in configured.values():
        assert properties["MaximumRetryAttempts"] == 0
        age = properties["MaximumEventAgeInSeconds"]
        assert age <= limits.RESERVATION_LEASE.total_seconds(), "it would find its lease lapsed"


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_function_has_its_limits_and_a_log_that_ends(
    templates: Templates, environment: str
) -> None:
    data = ENVIRONMENTS[environment]
    logs = {
        each.logical_id: each for each in templates.resources(environment, "AWS::Logs::LogGroup")
    }
    assert all(each.properties["RetentionInDays"] == data.log_days for each in logs.values())
    for name, function in templates.functions(environment).items():
        properties = function.properties
        assert properties["ReservedConcurrentExecutions"] == data.concurrency[name]
        assert properties["Timeout"] == BY_NAME[name].timeout_seconds <= 900
        log = logs[properties["LoggingConfig"]["LogGroup"]["Ref"]]
        assert log.properties["LogGroupName"] == f"/trace/{environment}/{name}"
        assert properties["Architectures"] == [data.architecture.value]
        assert properties["Runtime"] == f"python{data.python}"
        mode = properties.get("TracingConfig", {}).get("Mode")
        assert mode == ("Active" if data.tracing else None)


def test_functions_behind_an_api_end_before_the_gateway_gives_up() -> None:
    for name in ("user_api", "internal_api", "task_api"):
        assert BY_NAME[name].timeout_seconds < 29


def test_functions_in_the_cloud_are_arm64_and_local_ones_are_this_machines() -> None:
    assert {ENVIRONMENTS[name].architecture.value for name in CLOUD} == {"arm64"}
    assert ENVIRONMENTS["local"].built_for_this_machine
    assert not any(ENVIRONMENTS[name].built_for_this_machine for name in CLOUD)


@pytest.mark.parametrize("environment", CLOUD)
def test_all_functions_at_once_do_not_use_up_the_connections(environment: str) -> None:
    data = ENVIRONMENTS[environment]
    assert isinstance(data.database, Database)
    needed = sum(
        data.concurrency[function.name] * STATE_CONNECTIONS
        for function in FUNCTIONS
        if "state" in function.needs
    )
    # As owner and as reader, or as writer: two pools at most.
    for_rows = sum(
        data.concurrency[function.name] * DATA_CONNECTIONS * 2
        for function in FUNCTIONS
        if "data" in function.needs
    )
    if data.data_database is None:
        assert needed + for_rows <= data.database.connections
    else:
        assert needed <= 0.9 * data.database.connections
        assert for_rows <= 0.9 * data.data_database.connections


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_new_code_waits_for_the_migration(templates: Templates, environment: str) -> None:
    (migration,) = templates.resources(environment, "Custom::TraceMigration")
    functions = templates.functions(environment)
    for name, function in functions.items():
        waits = migration.logical_id in function.body.get("DependsOn", [])
        assert waits == (name != "migrate"), name
    assert migration.properties["ServiceToken"]["Fn::GetAtt"][0] == functions["migrate"].logical_id
    (org,) = migration.properties["Provision"]["orgs"]
    assert org["org_id"] == str(ENVIRONMENTS[environment].orgs[0].org_id)


def _group_of(templates: Templates, environment: str, function: Resource) -> str:
    ((group,),) = [
        [each["Fn::ImportValue"] for each in function.properties["VpcConfig"]["SecurityGroupIds"]]
    ]
    return next(name for name in ("Control", "Worker", "Runner") if f"FnGetAtt{name}" in group)


@pytest.mark.parametrize("environment", CLOUD)
@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda each: each.name)
def test_every_function_stands_in_its_place(
    templates: Templates, environment: str, spec: Function
) -> None:
    function = templates.functions(environment)[spec.name]
    wanted = {Place.WORKER: "Worker", Place.RUNNER: "Runner"}.get(spec.place, "Control")
    assert _group_of(templates, environment, function) == wanted
    subnets = [each["Fn::ImportValue"] for each in function.properties["VpcConfig"]["SubnetIds"]]
    kind = "outbound" if spec.place is Place.OUTBOUND else "isolated"
    assert all(kind in each for each in subnets)


def test_local_functions_stand_in_no_network(templates: Templates) -> None:
    for function in templates.functions("local").values():
        assert "VpcConfig" not in function.properties
