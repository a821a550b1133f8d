"""The databases on RDS: one server for both, or one for each.

An environment with a database elsewhere has no such stack.
"""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.environments import Database, Environment
from infra.needs import DATA_NAME
from infra.stacks.network import NetworkStack

STATE_NAME = "trace_state"


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
        self._environment = environment
        self._network = network
        self._engine = rds.DatabaseInstanceEngine.postgres(
            version=rds.PostgresEngineVersion.VER_18_3
        )
        self._parameters = rds.ParameterGroup(
            self,
            "Parameters",
            engine=self._engine,
            description="Only over TLS; statements that wait for a lock are logged",
            parameters={"rds.force_ssl": "1", "log_lock_waits": "1"},
        )
        own = environment.data_database
        # Whoever may reach the data database may reach a server that has both.
        groups = [network.database, *([] if own else [network.data])]
        self.state = self._instance("State", database, STATE_NAME, groups)
        self.data = self._instance("Data", own, DATA_NAME, [network.data]) if own else self.state

    def _instance(
        self, title: str, database: Database, name: str, groups: list[ec2.SecurityGroup]
    ) -> rds.DatabaseInstance:
        environment = self._environment
        return rds.DatabaseInstance(
            self,
            title,
            engine=self._engine,
            instance_type=ec2.InstanceType(database.instance_type),
            vpc=self._network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=groups,
            publicly_accessible=False,
            database_name=name,
            credentials=rds.Credentials.from_generated_secret(
                "trace", secret_name=f"{environment.prefix}/{title.lower()}"
            ),
            parameter_group=self._parameters,
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


def secret_of(instance: rds.DatabaseInstance) -> secretsmanager.ISecret:
    if instance.secret is None:
        raise TypeError("the credentials are generated, so there is a secret")
    return instance.secret
