"""The variables that the stack sets are fields that `Settings` reads, and say what they mean."""

from __future__ import annotations

import pytest

from infra.functions import FUNCTIONS, Function
from tests.infra.templates import EVERYWHERE, Templates, deployed
from trace_core.settings import Profile, Settings, variable

EMR = {
    *("TRACE_EMR_APPLICATION", "TRACE_EMR_ROLE", "TRACE_EMR_ENTRY_POINT", "TRACE_EMR_CODE"),
    *("TRACE_EMR_LOGS", "TRACE_EMR_RUNS"),
}
EXPECTED = {
    "state": {"TRACE_STATE_SECRET", "TRACE_STATE_CONNECTIONS"},
    "data": {"TRACE_DATA_SECRET", "TRACE_DATA_DATABASE", "TRACE_DATA_CONNECTIONS"},
    "arrow": set[str](),
    "read_rows": {"TRACE_BUCKET"},
    "write_rows": {"TRACE_BUCKET"},
    "clean_staging": {"TRACE_BUCKET"},
    "wake_relay": {"TRACE_RELAY_FUNCTION"},
    "wake_dispatcher": {"TRACE_DISPATCHER_FUNCTION"},
    "sign_tokens": {"TRACE_SIGNING_KEY"},
    "verify_tokens": {"TRACE_SIGNING_KEY"},
    "read_logs": {"TRACE_BUCKET"},
    "write_logs": {"TRACE_BUCKET"},
    "send_wake_ups": {"TRACE_QUEUE_PREFIX"},
    "hear_wake_ups": {"TRACE_QUEUE_PREFIX"},
    "tend_queues": {"TRACE_QUEUE_PREFIX"},
    "invoke_runner": {"TRACE_RUNNER_FUNCTION", "TRACE_RUNNER_CONCURRENCY"},
    "start_spark": EMR | {"TRACE_BUCKET"},
    "follow_spark": EMR | {"TRACE_BUCKET"},
    "worker_tokens": {"TRACE_SECRET_PREFIX"},
    "user_secrets": {"TRACE_SECRET_PREFIX"},
    "write_user_secrets": {"TRACE_SECRET_PREFIX"},
    "webhook_secrets": {"TRACE_SECRET_PREFIX"},
    "internal_api": {"TRACE_INTERNAL_URL"},
    "task_api": {"TRACE_TASK_API_URL"},
    "operators": {"TRACE_OPERATOR_MODULES"},
    "children": {"TRACE_WORKER_CHILDREN"},
    "upstreams": {"TRACE_UPSTREAMS"},
    "identity": {"TRACE_OIDC_ISSUER", "TRACE_OIDC_AUDIENCE"},
    "credentials": {"TRACE_OPERATOR_ROLE", "TRACE_BUCKET"},
}
ALWAYS = {"TRACE_PROFILE", "TRACE_HOME"}
FIELDS = {variable(name) for name in Settings.model_fields}


def _without(environment: str) -> set[str]:
    """What an environment has no value for."""
    return {"TRACE_UPSTREAMS"} | (EMR if environment == "local" else {"TRACE_OPERATOR_MODULES"})


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_variable_of_every_function_is_a_setting(
    templates: Templates, environment: str
) -> None:
    for name, function in templates.functions(environment).items():
        given = set(function.properties["Environment"]["Variables"])
        assert given <= FIELDS, f"{name}: {sorted(given - FIELDS)}"


@pytest.mark.parametrize("environment", EVERYWHERE)
@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda each: each.name)
def test_a_function_is_told_what_it_needs_and_nothing_else(
    templates: Templates, environment: str, spec: Function
) -> None:
    wanted = ALWAYS.union(*(EXPECTED[need] for need in spec.needs)) - _without(environment)
    function = templates.functions(environment)[spec.name]
    assert set(function.properties["Environment"]["Variables"]) == wanted


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_settings_accept_the_values(templates: Templates, environment: str) -> None:
    for name, function in templates.functions(environment).items():
        given = {
            # What is known only when it is deployed gets a value of the right shape.
            key: value if isinstance(value, str) else deployed(key)
            for key, value in function.properties["Environment"]["Variables"].items()
        }
        settings = Settings.from_env(given)
        assert settings.profile is Profile.AWS, name


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_setting_of_the_profile_aws_reaches_some_function(
    templates: Templates, environment: str
) -> None:
    meant = {
        variable(name)
        for name, field in Settings.model_fields.items()
        if (field.description or "").startswith("Profile aws")
    }
    given = {
        key
        for function in templates.functions(environment).values()
        for key in function.properties["Environment"]["Variables"]
    }
    assert meant - _without(environment) <= given


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_names_that_functions_are_told_are_names_that_exist(
    templates: Templates, environment: str
) -> None:
    functions = templates.functions(environment)
    existing = {each.properties["FunctionName"] for each in functions.values()}
    told = {
        value
        for function in functions.values()
        for key, value in function.properties["Environment"]["Variables"].items()
        if key.endswith("_FUNCTION")
    }
    assert told <= existing
    assert len(told) == 3
