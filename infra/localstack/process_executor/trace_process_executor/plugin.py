"""What LocalStack finds under `LAMBDA_RUNTIME_EXECUTOR=process`."""

from __future__ import annotations

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    name = "process"

    def load(self, *_args: object, **_options: object) -> type[RuntimeExecutor]:
        # LocalStack lists its plugins at every start, and needs this one only for a function.
        from .executor import ProcessExecutor

        return ProcessExecutor
