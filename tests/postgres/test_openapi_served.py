"""Random requests by the served document, good and bad ones, against the real server.

TRACE_OPENAPI_EXAMPLES is how many of each are made for every operation; the default keeps the whole
list within half a minute.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.config import SchemathesisConfig

from tests.manual_clock import ManualClock
from tests.postgres.library import SHOP
from tests.postgres.lite_app import CHAIN, OPERATORS, UNLIMITED, SilentWaker
from tests.postgres.served import Served
from tests.postgres.test_webhooks import DAG as HOOKED
from tests.postgres_server import PostgresServer
from trace_core import telemetry
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.http.openapi import document
from trace_core.http.routes import Surface
from trace_core.identity import webhook_signature
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.identity.webhook_signature import HEADERS
from trace_core.settings import Settings

EXAMPLES = int(os.environ.get("TRACE_OPENAPI_EXAMPLES", "12"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
_DAY = timedelta(hours=23)
NAMES = sorted(
    f"{method.upper()} {path}"
    for path, methods in document()["paths"].items()
    for method in methods
)


@dataclass
class Site:
    served: Served
    schema: Any
    known: dict[str, list[str]]
    """Values of path parameters that name something."""
    secret: str
    """Of the one webhook source."""
    log: io.StringIO
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)

    def headers(self, caller: str) -> dict[str, str]:
        if caller == "nobody":
            return {}
        token = self.served.app.development_issuer.mint(caller, _DAY)
        return {"authorization": f"Bearer {token}"}

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """As Standard Webhooks, each call an event of its own."""
        data = request.body or b""
        body = data.encode() if isinstance(data, str) else data
        now = self.served.app.clock.now()
        event, at = f"evt_{sum(self.seen.values())}", str(int(now.timestamp()))
        value = webhook_signature.sign(self.secret, event, at, body)
        request.headers.update(dict(zip(HEADERS, (event, at, f"v1,{value}"), strict=True)))
        return request

    @property
    def url(self) -> str:
        return self.served.servers[Surface.USER].url


@pytest.fixture(scope="module")
def site(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    dsn = postgres_server.clone()
    state = StateDatabase(dsn, size=8)
    log = io.StringIO()
    chosen = Settings(
        home=tmp_path_factory.mktemp("openapi"), operator_modules=(OPERATORS,), **UNLIMITED
    )
    with telemetry.redirected(log):
        app = App(chosen, state=state, clock=ManualClock(), waker=SilentWaker())
        served = Served(app)
        yield _filled(served, log)
        served.stop()
    state.close()
    postgres_server.drop(dsn)


def _filled(served: Served, log: io.StringIO) -> Site:
    app = served.app
    app.orgs.first_admin(app.own_org, app.subject("admin"))
    served.member("reader", PlatformRole.READER)
    bob = app.members.add(app.own_org, app.subject("bob"), PlatformRole.WRITER, "Bob", SYSTEM)
    for text in (CHAIN, HOOKED, SHOP):
        app.deploys.deploy(app.own_org, text, "dag.yaml", SYSTEM)
    app.members.add_role(app.own_org, "ops", SYSTEM)
    app.secret_writer.set(app.own_org, "rpc_key", "value", SYSTEM)
    token = app.worker_tokens.create(app.own_org, "farm", None, SYSTEM)
    hook = app.hooks.rotate(app.own_org, "hooked", "orders", SYSTEM)
    app.snapshots.create(app.own_org, "orders", "q3-report", "", SYSTEM)
    tasks = [str(each["task_id"]) for each in app.views.tasks(app.own_org)]
    config = SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}})
    url = served.servers[Surface.USER].url
    schema = schemathesis.openapi.from_url(f"{url}/v1/openapi.json", config=config)
    known = {
        "dag": ["chain", "hooked"],
        "dataset": ["orders", "totals"],
        "snapshot": ["q3-report"],
        "job": ["numbers", "history", "orders"],
        "number": ["1"],
        "role": ["ops"],
        "name": ["rpc_key"],
        "runtime": ["worker"],
        "pool": ["rpc"],
        "slot": ["one"],
        "task_id": tasks,
        "user_id": [str(bob)],
        "token_id": [str(token.token_id)],
        "source_id": [str(hook.source_id)],
    }
    return Site(served, schema, known, hook.secret, log)


def _run(site: Site, caller: str, name: str, mode: GenerationMode, examples: int) -> None:
    method, path = name.split(" ", 1)
    operation = site.schema[path][method]
    headers = site.headers(caller)
    session = requests.Session()
    session.trust_env = False
    if name.endswith("/hooks/{source_id}") and caller == "admin":
        session.auth = site.sign

    @seed(20260115)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.data())
    def calls(case: Case, data: st.DataObject) -> None:
        # Half of the names are of something that is there; else all would end with 404.
        named = mode is GenerationMode.POSITIVE and data.draw(st.booleans())
        if case.path_parameters and named:
            for parameter in case.path_parameters:
                case.path_parameters[parameter] = data.draw(st.sampled_from(site.known[parameter]))
        response = case.call(base_url=site.url, session=session, headers=headers, timeout=10)
        site.seen[caller, response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    calls()
    session.close()


def _takes_something(name: str) -> bool:
    method, path = name.split(" ", 1)
    operation = document()["paths"][path][method.lower()]
    return "parameters" in operation or "requestBody" in operation


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_to_an_administrator_is_as_the_document_says(site: Site, name: str) -> None:
    _run(site, "admin", name, GenerationMode.POSITIVE, EXAMPLES)
    if _takes_something(name):
        _run(site, "admin", name, GenerationMode.NEGATIVE, EXAMPLES)


@pytest.mark.parametrize("caller", ["reader", "nobody"])
def test_every_answer_to_others_is_as_the_document_says(site: Site, caller: str) -> None:
    for name in NAMES:
        _run(site, caller, name, GenerationMode.POSITIVE, max(2, EXAMPLES // 6))


def test_the_requests_reached_every_kind_of_answer(site: Site) -> None:
    for name in NAMES:
        _run(site, "admin", name, GenerationMode.POSITIVE, 3)
    statuses = {status for caller, status in site.seen if caller == "admin"}
    assert statuses >= {200, 201, 404, 409, 422}, site.seen
    assert "The request failed" not in site.log.getvalue()
