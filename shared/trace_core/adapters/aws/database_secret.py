"""The address of a database, as RDS keeps it in a secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import make_conninfo

from trace_core.adapters.aws.calls import calling
from trace_core.kernel.errors import Denied

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

_FIELDS = {"host": "host", "port": "port", "dbname": "dbname", "username": "user"}


def read_dsn(client: SecretsManagerClient, secret_id: str) -> str:
    with calling("The secret store"):
        text = client.get_secret_value(SecretId=secret_id)["SecretString"]
    values = _parse(text)
    given: dict[str, Any] = {ours: values[theirs] for theirs, ours in _FIELDS.items()}
    # A secret of one's own may say otherwise, as for a Postgres on the same machine.
    given["sslmode"] = values.get("sslmode", "require")
    if "password" in values:
        given["password"] = values["password"]
    return make_conninfo(**given)


def _parse(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
        complete = isinstance(values, dict) and _FIELDS.keys() <= values.keys()
    except ValueError:
        complete = False
    # Raised out here: the parser's own error carries the text, and the password in it.
    if not complete:
        raise Denied("The secret of a database lacks " + ", ".join(_FIELDS) + ".")
    return dict(values)
