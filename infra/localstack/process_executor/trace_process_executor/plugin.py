"""What LocalStack finds by its entry points, and loads when it is first needed."""

from __future__ import annotations

from localstack.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin,
    ResourceProvider,
)
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """For `LAMBDA_RUNTIME_EXECUTOR=process`."""

    name = "process"

    def load(self, *_args: object, **_options: object) -> type[RuntimeExecutor]:
        # LocalStack lists its plugins at every start, and needs this one only for a function.
        from .executor import ProcessExecutor

        return ProcessExecutor


class CustomResourcePlugin(CloudFormationResourceProviderPlugin):
    name = "AWS::CloudFormation::CustomResource"
    factory: type[ResourceProvider] | None = None

    def load(self, *_args: object, **_options: object) -> None:
        from .custom_resource import CustomResourceProvider

        self.factory = CustomResourceProvider
