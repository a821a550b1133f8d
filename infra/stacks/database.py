"""The state database on RDS. An environment with a database elsewhere has no such stack."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_rds as rds
from constructs import Construct

from infra.environments import Database, Environment
from infra.stacks.network import NetworkStack

NAME = "trace_state"


class DatabaseStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        database: Database,
        network: NetworkStack,
        **options: object,
    ) -> None:
        super().__init__(scope, name, **options)
        engine = rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_18_3)
        self.instance = rds.DatabaseInstance(
            self,
            "State",
            engine=engine,
            instance_type=ec2.InstanceType(database.instance_type),
            vpc=network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=[network.database],
            publicly_accessible=False,
            database_name=NAME,
            credentials=rds.Credentials.from_generated_secret(
                "trace", secret_name=f"{environment.prefix}/state"
            ),
            parameter_group=rds.ParameterGroup(
                self,
                "Parameters",
                engine=engine,
                description="Only over TLS; statements that wait for a lock are logged",
                parameters={"rds.force_ssl": "1", "log_lock_waits": "1"},
            ),
            storage_type=rds.StorageType.GP3,
            allocated_storage=database.storage_gib,
            max_allocated_storage=database.storage_gib * 5,
            storage_encrypted=True,
            multi_az=database.multi_az,
            backup_retention=Duration.days(database.backup_days),
            copy_tags_to_snapshot=True,
            auto_minor_version_upgrade=True,
            enable_performance_insights=True,
            deletion_protection=database.deletion_protection,
            removal_policy=(
                RemovalPolicy.SNAPSHOT if environment.keep_data else RemovalPolicy.DESTROY
            ),
        )
        if self.instance.secret is None:
            raise TypeError("the credentials are generated, so there is a secret")
        self.secret = self.instance.secret
