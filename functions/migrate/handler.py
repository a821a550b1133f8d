"""Brings both databases to this release, before the functions that need it are updated.

CloudFormation calls it as a custom resource and waits for its answer.
"""

from __future__ import annotations

from typing import Any

from trace_core import bootstrap
from trace_core.adapters.aws.custom_resource import answered
from trace_core.identity.provision import Provision
from trace_core.telemetry import Telemetry

telemetry = Telemetry("migrate")


@telemetry.observed
@answered
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    if event["RequestType"] == "Delete":
        # The databases outlive the stack that uses them.
        return {"applied": []}
    wanted = Provision.model_validate(event["ResourceProperties"]["Provision"])
    app = bootstrap.app()
    applied = app.migrate()
    app.provisioning.provision(wanted)
    telemetry.info("migrated", applied=applied, orgs=[org.name for org in wanted.orgs])
    return {"applied": applied}
