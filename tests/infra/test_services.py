"""What a function is told is enough for every service that it calls."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.infra.templates import CLOUD, EVERYWHERE, Templates, deployed
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.settings import Settings

CALLS = {
    "migrate": ("provisioning", "data"),
    "user_api": (
        *("authenticator", "user_tokens", "webhook_sources", "catalog", "waker"),
        *("deploys", "requests", "hooks", "secret_writer", "queue", "objects"),
        *("worker_tokens", "members", "audit", "quotas", "outbox_admin", "task_admin", "views"),
        *("data", "data_reader", "pin_resolver"),
    ),
    "internal_api": (
        *("authenticator", "worker_tokens", "signer", "waker", "arrivals"),
        *("claims", "payloads", "leases", "events", "completions", "task_names"),
        *("task_inputs", "objects"),
    ),
    "task_api": (
        *("authenticator", "tokens", "signer", "waker"),
        *("claims", "payloads", "leases", "events", "completions", "task_names"),
        *("task_inputs", "objects"),
    ),
    "dispatcher": (
        *("dispatcher", "history", "catalog", "signer", "waker"),
        *("reconciliation", "data_writer"),
    ),
    "emr_events": (
        *("completions", "payloads", "objects", "row_store", "data_writer", "data_reader"),
        *("catalog", "waker"),
    ),
    "reaper": ("reaper", "views", "waker"),
    "outbox_relay": ("relay", "queue", "task_runtime", "waker"),
    "staging_cleanup": ("staging_cleanup",),
    "operator_runner": ("task_client", "catalog", "row_store", "data_writer"),
    "worker": ("secrets", "objects", "queue", "worker_pool", "row_store", "data_writer"),
}

OF_SPARK = {
    "dispatcher": ("watch",),
    "emr_events": ("watch",),
    "outbox_relay": ("starts", "hand_over"),
}
"""Where the environment has a place to run them."""


@pytest.mark.parametrize("environment", EVERYWHERE)
@pytest.mark.parametrize("name", CALLS)
def test_every_service_of_a_function_can_be_built_from_its_variables(
    templates: Templates,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    environment: str,
    name: str,
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    given = {
        key: value if isinstance(value, str) else deployed(key)
        for key, value in templates.functions(environment)[name]
        .properties["Environment"]["Variables"]
        .items()
    }
    settings = Settings.from_env({**given, "TRACE_HOME": str(tmp_path)})
    state = StateDatabase("host=nowhere.invalid", size=1)
    with closing(App(settings, state=state, data_dsn="host=nowhere.invalid")) as app:
        for service in CALLS[name]:
            assert getattr(app, service) is not None
        assert app.has_spark == (name in OF_SPARK and environment in CLOUD)
        for service in OF_SPARK.get(name, ()) if app.has_spark else ():
            assert getattr(app.spark, service) is not None


def test_the_table_names_every_function(templates: Templates) -> None:
    assert set(CALLS) == set(templates.functions("prod"))


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_the_first_administrator_is_of_the_issuer_that_the_user_api_trusts(
    templates: Templates, environment: str
) -> None:
    made, trusted = (
        templates.functions(environment)[name].properties["Environment"]["Variables"]
        for name in ("migrate", "user_api")
    )
    assert made["TRACE_OIDC_ISSUER"] == trusted["TRACE_OIDC_ISSUER"]
