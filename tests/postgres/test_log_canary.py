"""Nothing secret is written where people look: a canary in every secret, token and body.

A real `trace dev` runs with all of them, well and badly. Then everything that it wrote is searched:
its output and its log. Not searched are the places that are meant to hold them: the secrets, tokens
and keys of the home folder, the database, and what operators print, which is theirs.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.postgres.lite_app import OPERATORS
from tests.postgres.test_lite import wait_for

JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.")
WORKER_TOKEN = re.compile(r"trw_[A-Za-z0-9_-]{20,}")
RAW_SQL = re.compile(r"\b(INSERT INTO|SELECT .+ FROM|UPDATE \w+ SET|DELETE FROM)\b")

DAG = """
version: 1
name: canary
# comment-canary-7f3a
worker_pools:
  rpc:
    - { name: one, env: { UPSTREAM: env-canary-7f3a }, secrets: { KEY: rpc_key } }
jobs:
  - name: numbers
    activation: source
    runtime: worker
    operator: emit_cursors
    source: { kind: always_on }
    outputs: 1
    update_strategy: replace
    config: { per_slice: 5, stop_at: 5 }
  - name: echo
    activation: reactive
    runtime: worker
    worker_pool: rpc
    operator: echo_env
    execution_strategy: PerUpdate
    inputs: [{ from: { job: numbers, output: 0 } }]
    outputs: 1
    update_strategy: replace
    max_attempts: 1
    config: { names: [KEY], fail: true }
  - name: broken
    activation: reactive
    runtime: lambda
    operator: fail
    execution_strategy: PerUpdate
    inputs: [{ from: { job: numbers, output: 0 } }]
    outputs: 1
    update_strategy: replace
    max_attempts: 1
    config: { message: config-canary-7f3a }
  - name: asked
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: manual }
    outputs: 1
  - name: called
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: webhook, path: /called }
    outputs: 1
"""


@dataclass
class Dev:
    folder: Path
    dsn: str
    environment: dict[str, str]
    process: subprocess.Popen[bytes]
    canaries: dict[str, str] = field(default_factory=dict)

    def plant(self, name: str) -> str:
        self.canaries[name] = f"{name}-canary-7f3a"
        return self.canaries[name]

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder, env=self.environment, input=given, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

    def send(
        self, api: str, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, str]:
        running = json.loads((self.folder / "home" / "dev.json").read_text())
        port = int(running["urls"][api].rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, {"content-type": "application/json", **sent})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def written(self) -> dict[str, str]:
        """Everything that was written for people, by file."""
        files = [self.folder / "out", *(self.folder / "home").glob("**/*log*")]
        return {
            str(file): file.read_text(errors="replace")
            for file in files
            if file.is_file() and "objects" not in file.parts and "postgres" not in file.parts
        }


COMMAND = [sys.executable, "-c", "from trace_cli.main import main; main()"]


@pytest.fixture
def dev(state_dsn: str, tmp_path: Path) -> Iterator[Dev]:
    environment = {
        **os.environ,
        "TRACE_HOME": str(tmp_path / "home"),
        "TRACE_OPERATOR_MODULES": OPERATORS,
        # The test's server trusts everybody, and so takes any password.
        "TRACE_STATE_DSN": make_conninfo(state_dsn, password="dsn-canary-7f3a"),
        "TRACE_RETRY_SECONDS": "0",
        **{f"TRACE_{name}_PORT": "0" for name in ("USER", "INTERNAL", "TASK", "ISSUER")},
    }
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(
            [*COMMAND, "dev"], cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            running = tmp_path / "home" / "dev.json"
            wait_for(lambda: running.exists() or process.poll() is not None, 60)
            yield Dev(tmp_path, state_dsn, environment, process)
        finally:
            process.kill()
            process.wait()


def test_no_secret_token_or_body_is_written(dev: Dev) -> None:
    dev.canaries |= {name: f"{name}-canary-7f3a" for name in ("comment", "env", "config", "dsn")}
    _work(dev)
    user = dev.run("token").stdout.strip()
    assert JWT.match(user), "the commands give people their token, when they ask"
    _misuse(dev, user)
    _break_the_database(dev, user)
    dev.process.send_signal(signal.SIGTERM)
    assert dev.process.wait(30) == 0

    written = dev.written()
    assert any("The request failed" in text for text in written.values()), "there was a log"
    tokens = {token for token in _tokens_of_leases(dev) if token}
    assert tokens
    for file, text in written.items():
        found = [name for name, canary in dev.canaries.items() if canary in text]
        assert not found, f"{file} shows {found}"
        assert not JWT.search(text) and not WORKER_TOKEN.search(text), f"{file} shows a token"
        assert not any(token in text for token in tokens), f"{file} shows a lease"
        assert not RAW_SQL.search(text), f"{file} shows SQL"


def _work(dev: Dev) -> None:
    """Everything once as it should be: secrets, a DAG, tasks that fail, a request, a webhook."""
    done = dev.run("secret", "set", "rpc_key", given=dev.plant("secret") + "\n")
    assert done.returncode == 0, done.stderr
    (dev.folder / "canary.yaml").write_text(DAG)
    done = dev.run("dag", "apply", "canary.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: _ended(dev) == {("broken", "Failed"): 5, ("echo", "Failed"): 5}, 60)
    secret = dev.run("hook", "secret", "canary", "called", "--rotate").stdout
    dev.canaries["hook secret"] = re.search(r"whsec_[A-Za-z0-9+/=]+", secret)[0]  # type: ignore[index]


def _misuse(dev: Dev, user: str) -> None:
    """Every kind of bad request, each with something of its own in body, path, query or header."""
    bearer = f"Bearer {user}"
    trigger = "/v1/dags/canary/jobs/asked/trigger"
    with psycopg.connect(dev.dsn) as connection:
        row = connection.execute("SELECT source_id FROM webhook_sources").fetchone()
    assert row is not None
    calls: list[tuple[str, str, str, Any, dict[str, str]]] = [
        ("user_api", "POST", trigger, {"request": {"x": dev.plant("body")}}, {}),
        ("user_api", "POST", trigger, dev.plant("not json").encode(), {}),
        ("user_api", "POST", "/v1/dags", {"text": dev.plant("dag text"), "filename": "a.yaml"}, {}),
        ("user_api", "POST", "/v1/plans", {"text": dev.plant("plan text")}, {}),
        ("user_api", "PUT", "/v1/secrets/Bad-Name", {"value": dev.plant("bad secret")}, {}),
        ("user_api", "PUT", "/v1/secrets/key", {"valeu": dev.plant("misspelt secret")}, {}),
        ("user_api", "GET", f"/v1/tasks?dag={dev.plant('query')}", None, {}),
        ("user_api", "GET", "/v1/status", None, {"authorization": f"Bearer {dev.plant('token')}"}),
        ("user_api", "GET", "/v1/status", None, {"cookie": dev.plant("cookie")}),
        ("user_api", "POST", f"/v1/hooks/{row[0]}", {"a": dev.plant("hook body")},
         {"webhook_id": dev.plant("hook id"), "webhook_signature": f"v1,{dev.plant('signature')}"}),
        ("internal_api", "POST", "/internal/task-claim", {"worker_id": dev.plant("worker")},
         {"authorization": f"Bearer trw_{dev.plant('worker token')}"}),
        ("task_api", "POST", "/v1/task/start", {"start_token": dev.plant("start token")}, {}),
        ("task_api", "POST", "/v1/task/complete", {"error_message": dev.plant("error")},
         {"authorization": f"Bearer eyJ.{dev.plant('capability')}.x"}),
    ]  # fmt: skip
    for api, method, path, body, headers in calls:
        status, _ = dev.send(api, method, path, body, **{"authorization": bearer, **headers})
        assert 200 <= status < 500, (path, status)


def _break_the_database(dev: Dev, user: str) -> None:
    """Requests that fail inside, where a log of the error is wanted."""
    with psycopg.connect(dev.dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE triggers RENAME TO triggers_away")
    body = {"request": {"start": 1, "end": 2, "x": dev.plant("broken body")}}
    good = {"request": {"start": 1, "end": 2}}
    for each in (body, good):
        status, _ = dev.send(
            "user_api", "POST", "/v1/dags/canary/jobs/asked/trigger", each,
            authorization=f"Bearer {user}",
        )  # fmt: skip
    assert status == 500
    with psycopg.connect(dev.dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE triggers_away RENAME TO triggers")


def _ended(dev: Dev) -> dict[tuple[str, str], int]:
    with psycopg.connect(dev.dsn) as connection:
        rows = connection.execute(
            "SELECT j.name, a.outcome, count(*) FROM attempts a JOIN jobs j USING (job_id)"
            " WHERE a.final GROUP BY 1, 2"
        ).fetchall()
    return {(job, outcome): count for job, outcome, count in rows}


def _tokens_of_leases(dev: Dev) -> list[str]:
    with psycopg.connect(dev.dsn) as connection:
        return [str(row[0]) for row in connection.execute("SELECT lease_token FROM attempts")]
