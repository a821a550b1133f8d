"""The stacks of one environment, wired together. What the environment leaves out is not made."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aws_cdk as cdk

from infra.environments import Database, Environment, ExternalDatabase
from infra.needs import Addresses
from infra.node import ROOT
from infra.stacks.control_plane import ControlPlaneStack
from infra.stacks.database import DatabaseStack, secret_of
from infra.stacks.emr import EmrStack
from infra.stacks.network import NetworkStack
from infra.stacks.observability import ObservabilityStack
from infra.stacks.storage import StorageStack


def context() -> dict[str, object]:
    """What `cdk.json` tells the command line, for those who do without it."""
    found: dict[str, object] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))[
        "context"
    ]
    return found


def add_stacks(app: cdk.App, environment: Environment) -> Mapping[str, cdk.Stack]:
    options: dict[str, object] = {
        "env": cdk.Environment(account=environment.account, region=environment.region),
        "termination_protection": environment.keep_data,
    }

    def name(part: str) -> str:
        return f"trace-{environment.name}-{part}"

    stacks: dict[str, cdk.Stack] = {}
    network = None
    if environment.network is not None:
        network = NetworkStack(
            app,
            name("network"),
            environment=environment,
            network=environment.network,
            **options,
        )
        stacks["network"] = network
    storage = StorageStack(app, name("storage"), environment=environment, **options)
    stacks["storage"] = storage
    database_ids: dict[str, str] = {}
    match environment.database:
        case Database() as own:
            if network is None:
                raise ValueError(f"{environment.name}: a database of its own needs a network")
            database = DatabaseStack(
                app,
                name("database"),
                environment=environment,
                database=own,
                network=network,
                **options,
            )
            stacks["database"] = database
            state_secret = state_secret_arn = secret_of(database.state).secret_arn
            data_secret = data_secret_arn = secret_of(database.data).secret_arn
            database_ids["Database"] = database.state.instance_identifier
            if database.data is not database.state:
                database_ids["DataDatabase"] = database.data.instance_identifier
        case ExternalDatabase(secret_name):
            state_secret = secret_name
            state_secret_arn = storage.format_arn(
                service="secretsmanager",
                resource="secret",
                # Secrets Manager adds six characters of its own to the name.
                resource_name=f"{secret_name}-??????",
                arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
            )
            data_secret, data_secret_arn = state_secret, state_secret_arn
    emr = None
    if environment.emr is not None:
        emr = EmrStack(
            app,
            name("emr"),
            environment=environment,
            emr=environment.emr,
            bucket_name=storage.bucket.bucket_name,
            bucket_arn=storage.bucket.bucket_arn,
            **options,
        )
        stacks["emr"] = emr
    addresses = Addresses(
        environment=environment,
        state_secret=state_secret,
        state_secret_arn=state_secret_arn,
        data_secret=data_secret,
        data_secret_arn=data_secret_arn,
        bucket_name=storage.bucket.bucket_name,
        bucket_arn=storage.bucket.bucket_arn,
        signing_key_arn=storage.signing_key.key_arn,
        worker_token_arns=[secret.secret_arn for secret in storage.worker_tokens],
        issuer=environment.identity.issuer,
        emr=emr.addresses if emr is not None else None,
    )
    control_plane = ControlPlaneStack(
        app,
        name("control-plane"),
        environment=environment,
        addresses=addresses,
        network=network,
        **options,
    )
    stacks["control_plane"] = control_plane
    stacks["observability"] = ObservabilityStack(
        app, name("observability"), environment=environment, database_ids=database_ids, **options
    )
    cdk.Tags.of(app).add("trace:environment", environment.name)
    return stacks
