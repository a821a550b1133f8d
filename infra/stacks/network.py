"""The network: who stands where, and who reaches whom. Absent in an environment without one."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.python_function import Placement, retention
from infra.environments import Environment, Network
from infra.functions import Place

HTTPS = ec2.Port.tcp(443)
POSTGRES = ec2.Port.tcp(5432)
_SERVICES = {
    "SecretsManager": ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
    "Kms": ec2.InterfaceVpcEndpointAwsService.KMS,
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_,
}
_GATEWAY = ec2.InterfaceVpcEndpointAwsService.APIGATEWAY


class NetworkStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        network: Network,
        **options: object,
    ) -> None:
        super().__init__(scope, name, **options)
        self._network = network
        self._outbound = {Place.OUTBOUND, *([Place.WORKER] if environment.upstreams else [])}
        self.vpc = self._make_vpc(environment)
        self.control = self._group("Control", "Reaches the databases and AWS services")
        self.worker = self._group("Worker", "Reaches both private APIs and the data database")
        self.runner = self._group("Runner", "Reaches the task API and the data database")
        self.database = self._group("Database", "The state database")
        self.data = self._group("Data", "The data database")
        services = self._group("Services", "Endpoints of AWS services")
        internal = self._group("Internal", "Endpoint of the internal API")
        task = self._group("Task", "Endpoint of the task API")

        self._let(self.control, self.database, POSTGRES)
        for group in (self.control, self.worker, self.runner):
            self._let(group, self.data, POSTGRES)
            self._let(group, services, HTTPS)
        self._let(self.worker, internal, HTTPS)
        self._let(self.worker, task, HTTPS)
        self._let(self.runner, task, HTTPS)
        for group in (self.control, self.worker, self.runner):
            # Objects, which have no security group of their own. Where there is no way out of
            # the subnet, this reaches nothing else.
            group.add_egress_rule(ec2.Peer.any_ipv4(), HTTPS, "S3, and the way out if there is one")

        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        for title, service in _SERVICES.items():
            self._endpoint(title, service, services, private_dns=True)
        # One for each private API, so that reaching the one says nothing about the other.
        self.internal_endpoint = self._endpoint("InternalApi", _GATEWAY, internal)
        self.task_endpoint = self._endpoint("TaskApi", _GATEWAY, task)

    def placement(self, place: Place) -> Placement:
        group = {Place.WORKER: self.worker, Place.RUNNER: self.runner}.get(place, self.control)
        kind = (
            ec2.SubnetType.PRIVATE_WITH_EGRESS
            if place in self._outbound
            else ec2.SubnetType.PRIVATE_ISOLATED
        )
        return Placement(self.vpc, ec2.SubnetSelection(subnet_type=kind), group)

    def _make_vpc(self, environment: Environment) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(self._network.cidr),
            max_azs=self._network.zones,
            nat_gateways=self._network.nat_gateways,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=26,
                    map_public_ip_on_launch=False,
                ),
                ec2.SubnetConfiguration(
                    name="outbound", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=24
                ),
                ec2.SubnetConfiguration(
                    name="isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20
                ),
            ],
        )
        flow = logs.LogGroup(
            self,
            "Flow",
            log_group_name=f"/trace/{environment.name}/network",
            retention=retention(environment.log_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        # What was refused is what somebody will want to see; the rest is bytes to pay for.
        vpc.add_flow_log(
            "Refused",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(flow),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
        return vpc

    def _group(self, name: str, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, name, vpc=self.vpc, description=description, allow_all_outbound=False
        )

    def _let(self, who: ec2.SecurityGroup, whom: ec2.SecurityGroup, port: ec2.Port) -> None:
        who.connections.allow_to(whom, port)

    def _endpoint(
        self,
        name: str,
        service: ec2.InterfaceVpcEndpointAwsService,
        group: ec2.SecurityGroup,
        *,
        private_dns: bool = False,
    ) -> ec2.InterfaceVpcEndpoint:
        isolated = self.vpc.isolated_subnets[: self._network.endpoint_zones]
        return ec2.InterfaceVpcEndpoint(
            self,
            name,
            vpc=self.vpc,
            service=service,
            subnets=ec2.SubnetSelection(subnets=isolated),
            security_groups=[group],
            private_dns_enabled=private_dns,
            open=False,
        )
