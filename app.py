"""The CDK application: `-c environment=dev` says which one; see docs/deployment.md."""

from __future__ import annotations

from infra import node

node.use()

import aws_cdk as cdk  # noqa: E402  # after node is chosen

from infra.application import add_stacks  # noqa: E402
from infra.environments import ENVIRONMENTS  # noqa: E402

app = cdk.App()
name = app.node.try_get_context("environment")
if name not in ENVIRONMENTS:
    raise SystemExit(f"say which environment: -c environment={'|'.join(ENVIRONMENTS)}")
add_stacks(app, ENVIRONMENTS[name])
app.synth()
