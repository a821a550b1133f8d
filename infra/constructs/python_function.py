"""One Lambda function: a role of its own with exactly its rights, a log group, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.packaging import architecture, function_code, runtime
from infra.environments import Environment
from infra.functions import Function

EVENT_AGE = Duration.seconds(60)
"""An invocation that waited this long is dropped: a schedule or a sweep has asked again since."""
_INTERFACES = [
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
]


@dataclass(frozen=True)
class Placement:
    vpc: ec2.IVpc
    subnets: ec2.SubnetSelection
    security_group: ec2.ISecurityGroup


class PythonFunction(Construct):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        function: Function,
        variables: Mapping[str, str],
        rights: Mapping[str, Sequence[iam.PolicyStatement]],
        layers: Sequence[lambda_.ILayerVersion],
        placement: Placement | None,
    ) -> None:
        super().__init__(scope, name)
        self._environment = environment
        self._spec = function
        self.log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/trace/{environment.name}/{function.name}",
            retention=retention(environment.log_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(
            self,
            "Role",
            role_name=environment.function_name(function.name),
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={
                name: iam.PolicyDocument(statements=list(given))
                for name, given in {**self._own_rights(placement), **rights}.items()
            },
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=environment.function_name(function.name),
            runtime=runtime(environment),
            architecture=architecture(environment),
            handler=f"functions.{function.name}.handler.handler",
            code=function_code(function.name),
            layers=list(layers),
            environment=dict(variables),
            # All rights are stated above; what CDK would add by itself is left out.
            role=self.role.without_policy_updates(),
            timeout=Duration.seconds(function.timeout_seconds),
            memory_size=function.memory_mb,
            reserved_concurrent_executions=environment.concurrency[function.name],
            tracing=lambda_.Tracing.ACTIVE if environment.tracing else lambda_.Tracing.DISABLED,
            log_group=self.log_group,
            vpc=placement.vpc if placement else None,
            vpc_subnets=placement.subnets if placement else None,
            security_groups=[placement.security_group] if placement else None,
        )
        if function.asynchronous:
            self.function.configure_async_invoke(retry_attempts=0, max_event_age=EVENT_AGE)

    def _own_rights(self, placement: Placement | None) -> dict[str, list[iam.PolicyStatement]]:
        """What Lambda itself does in the name of the function."""
        rights = {
            "log": [
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                    resources=[self.log_group.log_group_arn],
                )
            ]
        }
        if self._environment.tracing:
            rights["tracing"] = [
                iam.PolicyStatement(
                    actions=["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
                    resources=["*"],
                )
            ]
        if placement:
            rights["network"] = [
                iam.PolicyStatement(actions=_INTERFACES, resources=["*"]),
                self._not_by_the_code_itself(),
            ]
        return rights

    def _not_by_the_code_itself(self) -> iam.PolicyStatement:
        """Lambda attaches the function to the network; its code has no business there."""
        own = Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=self._environment.function_name(self._spec.name),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=_INTERFACES,
            resources=["*"],
            conditions={"ArnEquals": {"lambda:SourceFunctionArn": own}},
        )


def retention(days: int) -> logs.RetentionDays:
    known = {
        1: logs.RetentionDays.ONE_DAY,
        14: logs.RetentionDays.TWO_WEEKS,
        30: logs.RetentionDays.ONE_MONTH,
        90: logs.RetentionDays.THREE_MONTHS,
    }
    return known[days]
