"""The control plane: functions, their queues and schedules, and the three APIs."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from aws_cdk import CfnOutput, CfnParameter, CustomResource, Duration, Fn, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda_event_sources as event_sources
from constructs import Construct

from infra.constructs.packaging import Layers
from infra.constructs.python_function import PythonFunction
from infra.constructs.queue_with_dlq import QueueWithDlq
from infra.constructs.rest_api import STAGE, RestApi, Throttle
from infra.constructs.scheduled_function import EveryMinute
from infra.constructs.spark_events import SparkEvents
from infra.environments import Environment
from infra.functions import FUNCTIONS, Function, Need
from infra.needs import Addresses, statements, variables
from infra.node import ROOT
from infra.stacks.network import NetworkStack

_MIGRATIONS = ROOT / "shared" / "trace_core" / "database" / "migrations"
_BY_NAME = {function.name: function for function in FUNCTIONS}
HINTS = 10
"""Wake-ups in one event: a worker that is woken drains, so one event is as good as ten."""


class ControlPlaneStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        addresses: Addresses,
        network: NetworkStack | None,
        **options: object,
    ) -> None:
        super().__init__(scope, name, **options)
        self._environment = environment
        self._network = network
        self._layers = Layers(self, "Layers", environment=environment)
        self._addresses = replace(
            addresses,
            issuer=self._issuer(addresses.issuer),
            # By name: the role trusts the function that is told its name.
            operator_role_arn=self._operator_role_arn(),
        )
        self.functions: dict[str, PythonFunction] = {}

        self._add("migrate")
        self._migration = self._migrate()
        for each in (
            *("user_api", "internal_api", "task_api"),
            *("dispatcher", "reaper", "outbox_relay", "staging_cleanup", "emr_events"),
        ):
            self._add(each)
        if addresses.emr is not None:
            SparkEvents(
                self,
                "SparkEvents",
                application_id=addresses.emr.application_id,
                function=self.functions["emr_events"],
            )
        self._add_operator_role()
        self._add_apis()
        for each in ("operator_runner", "worker"):
            self._add(each)
        self._add_queues()

    def _add(self, name: str) -> None:
        spec = _BY_NAME[name]
        made = PythonFunction(
            self,
            "".join(word.capitalize() for word in name.split("_")),
            environment=self._environment,
            function=spec,
            variables=variables(spec, self._addresses),
            rights=statements(spec, self._addresses, self),
            layers=self._layers_of(spec),
            placement=self._network.placement(spec.place) if self._network else None,
        )
        self.functions[name] = made
        if name != "migrate":
            # New code meets a database that was made ready for it, or is not deployed.
            made.function.node.add_dependency(self._migration)
        if spec.every_minute:
            EveryMinute(made, "Schedule", function=made)

    def _layers_of(self, spec: Function) -> list[object]:
        own = self._layers.operators
        return [
            *self._layers.of_every_function,
            *([self._layers.data] if Need.ARROW in spec.needs else []),
            *([own] if own is not None and Need.OPERATORS in spec.needs else []),
        ]

    def _migrate(self) -> CustomResource:
        digest = hashlib.sha256()
        for file in sorted(_MIGRATIONS.rglob("*.sql")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        function = self.functions["migrate"].function
        return CustomResource(
            self,
            "Migration",
            resource_type="Custom::TraceMigration",
            service_token=function.function_arn,
            service_timeout=Duration.seconds(_BY_NAME["migrate"].timeout_seconds + 60),
            properties={
                "Migrations": digest.hexdigest(),
                "Provision": {
                    "orgs": [
                        {
                            "name": org.name,
                            "org_id": str(org.org_id),
                            "administrators": list(org.administrators),
                        }
                        for org in self._environment.orgs
                    ]
                },
            },
        )

    def _operator_role_arn(self) -> str:
        return self.format_arn(
            service="iam",
            region="",
            resource="role",
            resource_name=f"{self._environment.prefix}-operator",
        )

    def _add_operator_role(self) -> None:
        """What tasks may reach at most. Each gets it narrowed to its own prefixes."""
        data = iam.PolicyStatement(
            actions=["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
            resources=[f"{self._addresses.bucket_arn}/org/*/dataset/*"],
        )
        listing = iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[self._addresses.bucket_arn],
            conditions={"StringLike": {"s3:prefix": "org/*/dataset/*"}},
        )
        iam.Role(
            self,
            "Operator",
            role_name=f"{self._environment.prefix}-operator",
            description="Data of tasks: assumed by the task API, with a policy for each attempt",
            assumed_by=iam.ArnPrincipal(self.functions["task_api"].role.role_arn),
            max_session_duration=Duration.hours(1),
            inline_policies={"data": iam.PolicyDocument(statements=[data, listing])},
        )

    def _add_apis(self) -> None:
        account = self._gateway_may_log()
        rate = self._environment.user_requests_per_second
        task_rate = 20 * rate
        apis = {
            "user_api": RestApi(
                self,
                "UserGateway",
                environment=self._environment,
                api_name="user_api",
                path="/v1",
                function=self.functions["user_api"],
                throttle=Throttle(rate, 2 * rate),
            ),
            "internal_api": RestApi(
                self,
                "InternalGateway",
                environment=self._environment,
                api_name="internal_api",
                path="/internal",
                function=self.functions["internal_api"],
                throttle=Throttle(task_rate, 2 * task_rate),
                endpoint=self._network.internal_endpoint if self._network else None,
            ),
            "task_api": RestApi(
                self,
                "TaskGateway",
                environment=self._environment,
                api_name="task_api",
                path="/v1/task",
                function=self.functions["task_api"],
                throttle=Throttle(task_rate, 2 * task_rate),
                endpoint=self._network.task_endpoint if self._network else None,
            ),
        }
        for name, api in apis.items():
            api.api.deployment_stage.node.add_dependency(account)
            CfnOutput(self, f"Url{name.title().replace('_', '')}", value=self._url(api))
        self._addresses = replace(
            self._addresses,
            internal_url=self._url(apis["internal_api"]),
            task_url=self._url(apis["task_api"]),
        )

    def _url(self, api: RestApi) -> str:
        if not self._environment.built_for_this_machine:
            return api.url
        # An emulator has one address for all APIs, which is known when it runs.
        found = self.node.try_find_child("Emulator")
        emulator = found or CfnParameter(
            self,
            "Emulator",
            default="http://localhost:4566",
            description="Where the emulator listens",
        )
        parts = [emulator.value_as_string, "/_aws/execute-api/", api.api.rest_api_id, f"/{STAGE}"]
        return Fn.join("", parts)

    def _issuer(self, known: str) -> str:
        if not self._environment.built_for_this_machine:
            return known
        # The development issuer listens beside the emulator, wherever there was a free port.
        return CfnParameter(
            self, "Issuer", default=known, description="Where the issuer of users listens"
        ).value_as_string

    def _gateway_may_log(self) -> apigateway.CfnAccount:
        role = iam.Role(
            self,
            "GatewayLog",
            assumed_by=iam.ServicePrincipal("apigateway.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(
                    "service-role/AmazonAPIGatewayPushToCloudWatchLogs"
                )
            ],
        )
        return apigateway.CfnAccount(self, "Gateway", cloud_watch_role_arn=role.role_arn)

    def _add_queues(self) -> None:
        worker = self.functions["worker"]
        for org in self._environment.orgs:
            queue = QueueWithDlq(
                self,
                f"WakeUps{org.org_id.hex}",
                queue_name=self._environment.queue_name(org),
                consumer_timeout_seconds=_BY_NAME["worker"].timeout_seconds,
            )
            worker.function.add_event_source(
                event_sources.SqsEventSource(
                    queue.queue,
                    batch_size=HINTS,
                    max_concurrency=org.worker_concurrency,
                    report_batch_item_failures=True,
                )
            )
