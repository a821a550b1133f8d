"""The migrate function on an empty Postgres: schema, orgs, tokens, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr

from functions.migrate.handler import handler
from trace_core import bootstrap
from trace_core.adapters.aws import custom_resource
from trace_core.bootstrap import App
from trace_core.database.migrate import migrations
from trace_core.identity.provision import WORKER_TOKEN
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace
from trace_core.settings import Settings

TOKEN = "trw_" + "a" * 43
NEW_TOKEN = "trw_" + "b" * 43
ORG_ID = OrgId(UUID("0192f0c1-6b00-7000-8000-000000000001"))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(custom_resource, "_put", lambda _url, body: found.append(body.decode()))
    return found


@pytest.fixture
def app(empty_dsn: str, tmp_path: Path, answers: list[str]) -> Iterator[App]:
    own = App(Settings(home=tmp_path, state_dsn=SecretStr(empty_dsn)))
    own.secrets.put(ORG_ID, Namespace.PLATFORM, WORKER_TOKEN, TOKEN)
    with bootstrap.running(own):
        yield own


def event(kind: str = "Create", **org: Any) -> dict[str, Any]:
    wanted = {"name": "main", "org_id": str(ORG_ID), "administrators": ["idp|ada"], **org}
    return {
        "RequestType": kind,
        "ResponseURL": "https://example.invalid/",
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Migration",
        "ResourceProperties": {"ServiceToken": "arn", "Provision": {"orgs": [wanted]}},
    }


def test_an_empty_database_gets_schema_org_administrator_and_worker_token(
    app: App, answers: list[str]
) -> None:
    applied = handler(event(), None)["applied"]
    assert applied == [
        *(f"{each.number:04}_{each.name}" for each in migrations()),
        *(f"data/{each.number:04}_{each.name}" for each in migrations("data")),
    ]
    assert app.data_writer.read("SELECT epoch FROM trace.epoch", {})[0].epoch == 1
    assert app.worker_tokens.org_of(TOKEN) == ORG_ID
    rows = app.state.read(
        "SELECT platform_role FROM memberships WHERE org_id = %(o)s", {"o": ORG_ID}
    )
    assert [row.platform_role for row in rows] == ["admin"]
    assert '"Status": "SUCCESS"' in answers[0]


def test_a_second_deploy_changes_nothing(app: App) -> None:
    handler(event(), None)
    assert handler(event("Update"), None) == {"applied": []}
    assert len(app.state.read("SELECT org_id FROM orgs", {})) == 1


def test_a_token_that_was_replaced_is_let_in_after_the_next_deploy(app: App) -> None:
    handler(event(), None)
    app.secrets.put(ORG_ID, Namespace.PLATFORM, WORKER_TOKEN, NEW_TOKEN)
    handler(event("Update"), None)
    assert app.worker_tokens.org_of(NEW_TOKEN) == ORG_ID


@pytest.mark.parametrize("org", [{"org_id": str(uuid4())}, {"name": "other"}])
def test_an_org_that_exists_under_another_id_or_name_is_refused(
    app: App, answers: list[str], org: dict[str, str]
) -> None:
    handler(event(), None)
    with pytest.raises(Conflict):
        handler(event("Update", **org), None)
    assert '"Status": "FAILED"' in answers[-1]


def test_an_org_without_a_token_fails_the_deploy(app: App, answers: list[str]) -> None:
    with pytest.raises(NotFound):
        handler(event(name="second", org_id=str(uuid4())), None)
    assert '"Status": "FAILED"' in answers[-1]


def test_deleting_the_stack_leaves_the_database_alone(app: App, answers: list[str]) -> None:
    handler(event(), None)
    handler(event("Delete"), None)
    assert app.worker_tokens.org_of(TOKEN) == ORG_ID
    assert '"Status": "SUCCESS"' in answers[-1]
