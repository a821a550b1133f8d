"""A REST API in front of one function: throttled, logged without bodies, public or private."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.python_function import PythonFunction, retention
from infra.environments import Environment

STAGE = "trace"


@dataclass(frozen=True)
class Throttle:
    requests_per_second: int
    burst: int


class RestApi(Construct):
    """Everything below `path` goes to the function; anything else is refused at the door."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        api_name: str,
        path: str,
        function: PythonFunction,
        throttle: Throttle,
        endpoint: ec2.IVpcEndpoint | None = None,
    ) -> None:
        super().__init__(scope, name)
        self._endpoint = endpoint
        access = logs.LogGroup(
            self,
            "Access",
            log_group_name=f"/trace/{environment.name}/{api_name}-access",
            retention=retention(environment.log_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        kind = apigateway.EndpointType.PRIVATE if endpoint else apigateway.EndpointType.REGIONAL
        self.api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name=f"{environment.prefix}-{api_name}",
            endpoint_configuration=apigateway.EndpointConfiguration(
                types=[kind], vpc_endpoints=[endpoint] if endpoint else None
            ),
            policy=_only_through(endpoint) if endpoint else None,
            cloud_watch_role=False,
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                throttling_rate_limit=throttle.requests_per_second,
                throttling_burst_limit=throttle.burst,
                access_log_destination=apigateway.LogGroupLogDestination(access),
                access_log_format=apigateway.AccessLogFormat.json_with_standard_fields(
                    **dict.fromkeys(
                        (
                            *("caller", "http_method", "ip", "protocol", "request_time"),
                            *("resource_path", "response_length", "status", "user"),
                        ),
                        True,
                    )
                ),
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                # Bodies and headers carry tokens.
                data_trace_enabled=False,
                metrics_enabled=True,
                tracing_enabled=environment.tracing,
            ),
        )
        self.api.root.resource_for_path(path).add_proxy(
            any_method=True,
            default_integration=apigateway.LambdaIntegration(
                function.function, proxy=True, allow_test_invoke=False
            ),
        )

    @property
    def url(self) -> str:
        """Where callers find it; a private one through its endpoint, by the endpoint's own name."""
        host = self.api.rest_api_id
        if self._endpoint:
            host = f"{host}-{self._endpoint.vpc_endpoint_id}"
        return f"https://{host}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}/{STAGE}"


def _only_through(endpoint: ec2.IVpcEndpoint) -> iam.PolicyDocument:
    anybody = iam.AnyPrincipal()
    every_path = ["execute-api:/*"]
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                principals=[anybody], actions=["execute-api:Invoke"], resources=every_path
            ),
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                principals=[anybody],
                actions=["execute-api:Invoke"],
                resources=every_path,
                conditions={"StringNotEquals": {"aws:SourceVpce": endpoint.vpc_endpoint_id}},
            ),
        ]
    )
