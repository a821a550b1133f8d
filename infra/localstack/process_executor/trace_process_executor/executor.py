"""LocalStack's execution environment as a child process with AWS's own runtime client."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import tempfile
import threading
import time
from pathlib import Path

from localstack import config
from localstack.aws.api.lambda_ import PackageType
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import (
    LambdaRuntimeException,
    RuntimeExecutor,
)

from .instance import Instance, Report
from .runtime_api import Invocation
from .sandbox import Sandbox

LOG = logging.getLogger(__name__)

_RUNTIME = "python3.11"
_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
_INIT_SECONDS = config.LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT - 5
"""LocalStack gives up on the whole environment a little later, without keeping its output."""


class ProcessExecutor(RuntimeExecutor):
    """One environment: an instance that is reused while it is usable, and replaced when not.

    As with Lambda, a failed initialisation fails the invocation that caused it, with the output in
    the log, and the next invocation initialises again.
    """

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id, function_version)
        self._folder = Path(tempfile.gettempdir(), "lambda-processes", id)
        self._variables: dict[str, str] = {}
        self._lock = threading.Lock()
        self._instance: Instance | None = None
        self._stopped = False

    @classmethod
    def validate_environment(cls) -> bool:
        return Path(os.environ.get("LAMBDA_PROCESS_PYTHON", "")).is_file()

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        settings = function_version.config
        if settings.package_type != PackageType.Zip or settings.runtime != _RUNTIME:
            raise LambdaRuntimeException(
                f"functions run here from a zip with {_RUNTIME}, not with {settings.runtime}"
            )
        host = _ARCHITECTURES.get(platform.machine().lower())
        if host not in settings.architectures and not config.LAMBDA_IGNORE_ARCHITECTURE:
            raise LambdaRuntimeException(
                f"the function is built for {', '.join(settings.architectures)} and this machine "
                f"runs {host}: build it for that, and say so in its Architectures"
            )
        settings.code.prepare_for_execution()
        for layer in settings.layers:
            layer.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """LocalStack removes the unpacked code itself; layers may have other users."""

    def start(self, env_vars: dict[str, str]) -> None:
        self._variables = env_vars | _log_settings(self.function_version)
        (self._folder / "scratch").mkdir(parents=True)
        if self._usable_instance().initialise(_INIT_SECONDS) is not None:
            LOG.warning("The initialisation of %s failed", self.function_version.qualified_arn)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._instance is not None:
                self._instance.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        instance = self._usable_instance()
        instance.initialise(_INIT_SECONDS)
        started, seconds = time.monotonic(), self.function_version.config.timeout
        invocation = Invocation(
            request_id=payload["invoke-id"],
            function_arn=payload["invoked-function-arn"],
            trace_id=payload["trace-id"],
            payload=payload["payload"].encode(),
            deadline_ms=int((time.time() + seconds) * 1000),
        )
        report = instance.invoke(invocation, seconds)
        milliseconds = (time.monotonic() - started) * 1000
        if not instance.usable:
            # Its process may still be busy, or have left others behind.
            self._discard(instance)
        return InvocationResult(
            invocation.request_id,
            report.outcome.payload,
            is_error=report.outcome.is_error,
            logs=self._log(invocation.request_id, report, milliseconds),
        )

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """Where LocalStack's own init program would report; nothing of ours does."""
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    def get_logs(self) -> str:
        return (self._folder / "output.log").read_text(encoding="utf-8", errors="replace")

    def _usable_instance(self) -> Instance:
        with self._lock:
            if self._stopped:
                raise LambdaRuntimeException("the execution environment was stopped")
            if self._instance is not None and self._instance.died_idle:
                self._instance.kill()
                self._instance = None
            if self._instance is None:
                self._instance = self._new_instance()
            return self._instance

    def _new_instance(self) -> Instance:
        settings = self.function_version.config
        sandbox = Sandbox(
            code=Path(settings.code.get_unzipped_code_location()),
            layers=[Path(layer.code.get_unzipped_code_location()) for layer in settings.layers],
            scratch=self._folder / "scratch",
        )
        command = [os.environ["LAMBDA_PROCESS_PYTHON"], "-m", "awslambdaric", settings.handler]
        return Instance(command, sandbox, self._variables, self._folder / "output.log")

    def _discard(self, instance: Instance) -> None:
        with self._lock:
            instance.kill()
            if self._instance is instance:
                self._instance = None

    def _log(self, request_id: str, report: Report, milliseconds: float) -> str:
        """The lines that Lambda puts around a function's own."""
        line_end = "\n" if report.output and not report.output.endswith("\n") else ""
        settings = self.function_version.config
        return "".join(
            (
                f"START RequestId: {request_id} Version: {self.function_version.id.qualifier}\n",
                report.output + line_end,
                report.outcome.note,
                f"END RequestId: {request_id}\n",
                f"REPORT RequestId: {request_id}\tDuration: {milliseconds:.2f} ms\t",
                f"Memory Size: {settings.memory_size} MB\tMax Memory Used: {report.memory_mb} MB\n",
            )
        )


def _log_settings(function_version: FunctionVersion) -> dict[str, str]:
    """What tells the runtime client to print its lines as JSON."""
    settings = function_version.config.logging_config or {}
    names = {"LogFormat": "AWS_LAMBDA_LOG_FORMAT", "ApplicationLogLevel": "AWS_LAMBDA_LOG_LEVEL"}
    return {variable: settings[name] for name, variable in names.items() if settings.get(name)}
