"""The commands about people, roles, secrets and tokens, against a real database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.shell import Shell
from trace_core.bootstrap import App
from trace_core.ports.secret_store import Namespace
from trace_core.settings import Settings


def test_nobody_needs_a_login_to_begin(shell: Shell) -> None:
    assert shell.says("status") == "No DAG is deployed.\n"
    (member,) = shell.json("member", "list")["members"]
    assert (member["subject"], member["role"]) == ("local:local", "admin")


def test_members_and_roles_are_managed_by_their_subject(shell: Shell) -> None:
    assert shell.says("member", "add", "auth0|bob", "--role", "writer", "--name", "Bob") == (
        "auth0|bob is a member as writer.\n"
    )
    assert "AlreadyMember" not in shell.fails("member", "add", "auth0|bob")
    assert shell.says("member", "set-role", "auth0|bob", "reader") == "auth0|bob is reader now.\n"
    assert shell.says("role", "add", "ops") == "Added ops.\n"
    assert shell.says("role", "grant", "ops", "auth0|bob") == "auth0|bob has the role ops.\n"
    assert "ops" in shell.says("member", "list")
    assert shell.json("role", "list")["roles"][0]["members"] == 1
    shell.says("dag", "apply", "hooked.yaml")
    assert shell.says("dag", "deploy-roles", "hooked", "ops") == "hooked is open to ops.\n"
    assert "take it out there first" in shell.fails("role", "remove", "ops")
    assert "creator and administrators only" in shell.says("dag", "deploy-roles", "hooked")
    shell.says("role", "revoke", "ops", "auth0|bob")
    shell.says("role", "remove", "ops")
    shell.says("member", "remove", "auth0|bob")
    assert "No member auth0|bob" in shell.fails("member", "remove", "auth0|bob")
    assert "one administrator" in shell.fails("member", "remove", "local:local")
    seen = shell.says("audit", "--action", "member")
    assert [line.split()[-2] for line in seen.splitlines() if "member.remove" in line] == [
        "auth0|bob"
    ]
    assert shell.json("audit", "--limit", "1")["entries"][0]["action"] == "member.remove"


def test_a_secret_is_read_from_standard_input_and_never_shown(shell: Shell, tmp_path: Path) -> None:
    value = "very-secret"
    outputs = [
        shell.says("secret", "set", "rpc_key", stdin=value + "\n"),
        shell.says("secret", "set", "rpc_key", stdin=value + "\n"),
        shell.says("secret", "list"),
        shell.says("secret", "list", "--json"),
        shell.says("audit"),
        shell.fails("secret", "set", "rpc_key", stdin=""),
        shell.fails("secret", "set", "Bad-Name", stdin=value),
        shell.fails("secret", "set", "rpc_key", stdin="x" * 70_000),
        *(each.read_text() for each in tmp_path.rglob("*.log")),
    ]
    assert outputs[0] == "Wrote the secret rpc_key.\n"
    assert outputs[1] == "Replaced the secret rpc_key.\n"
    assert not any(value in each for each in outputs)
    app = App(Settings.from_env())
    assert app.secrets.get(app.own_org, Namespace.USER, "rpc_key") == value
    app.close()
    assert shell.run("secret", "set", "rpc_key", value)[0] == 2, "never an argument"
    assert shell.says("secret", "remove", "rpc_key") == "Removed the secret rpc_key.\n"
    assert shell.says("secret", "list") == "There are no secrets.\n"


def test_worker_tokens_are_made_listed_and_revoked(shell: Shell) -> None:
    token = shell.says("worker-token", "create", "farm", "--expires-in-days", "30").strip()
    assert token.startswith("trw_")
    (listed,) = shell.json("worker-token", "list")["worker_tokens"]
    assert listed["valid"]
    assert token not in shell.says("worker-token", "list")
    shell.says("worker-token", "revoke", listed["token_id"])
    assert "revoked" in shell.says("worker-token", "list")
    shell.fails("worker-token", "revoke", "nope")


def test_a_webhooks_secret_is_shown_once(shell: Shell) -> None:
    deployed = shell.says("dag", "apply", "hooked.yaml")
    assert "trace hook secret hooked orders --rotate" in deployed
    assert "lets nobody in yet" in shell.says("hook", "show", "hooked", "orders")
    assert "--rotate" in shell.fails("hook", "secret", "hooked", "orders")
    made = shell.says("hook", "secret", "hooked", "orders", "--rotate")
    secret = next(word for word in made.split() if word.startswith("whsec_"))
    shown = shell.says("hook", "show", "hooked", "orders")
    assert "/v1/hooks/" in shown
    assert secret not in shown + shell.says("audit")
    shell.fails("hook", "show", "hooked", "asked")


def test_a_token_is_minted_for_anybody_on_this_machine(
    local_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local_shell.says("token").count(".") == 2
    token = local_shell.says("token", "--user", "bob", "--role", "writer", "--ttl", "60").strip()
    assert local_shell.json("member", "list")["members"][0]["subject"] == "bob"
    monkeypatch.setenv("TRACE_USER_TOKEN", token)
    assert local_shell.says("status") == "No DAG is deployed.\n"
    assert "may not do that" in local_shell.fails("audit")
    monkeypatch.setenv("TRACE_USER_TOKEN", token + "x")
    assert "valid token" in local_shell.fails("status")


def test_the_first_administrator_comes_from_the_command_or_a_setting(
    local_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local_shell.says("org", "create", "acme", "--admin", "ada") == "ada administers acme.\n"
    assert "trace member add" in local_shell.fails("org", "create", "acme", "--admin", "eve")
    monkeypatch.setenv("TRACE_ORG", "fresh")
    monkeypatch.setenv("TRACE_FIRST_ADMIN", "ada")
    for _ in range(2):
        local_shell.says("db", "migrate")
    app = App(Settings.from_env())
    assert [each["subject"] for each in app.members.list(app.own_org)] == ["ada"]
    app.close()


def test_with_an_issuer_of_ones_own_no_token_is_minted_here(
    local_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_OIDC_ISSUER", "https://login.example")
    for arguments in (("token",), ("token", "--user", "eve", "--role", "admin"), ("status",)):
        assert "TRACE_OIDC_ISSUER" in local_shell.fails(*arguments)
