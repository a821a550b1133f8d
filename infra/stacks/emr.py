"""Where PySpark operators run: an EMR Serverless application, its code, and the role of its runs.

It stands in no network: a run reads and writes objects and nothing else, and where there is no
network it reaches neither database nor API. The role has what runs may have at most; the platform
starts each with a policy that leaves the prefixes of its own task.
"""

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_emrserverless as emrserverless
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.packaging import spark_code, spark_entry_point
from infra.environments import (
    DRIVER_GB,
    DRIVER_VCPUS,
    EXECUTOR_GB,
    EXECUTOR_VCPUS,
    Architecture,
    Emr,
    Environment,
)
from infra.needs import SPARK_SERVICE, EmrAddresses
from infra.stacks.storage import SPARK_LOGS

RELEASE = "emr-spark-8.0.0"
"""Spark 4.0.2, as on one machine; a test compares."""
_OVERHEAD = 0.1
"""Of a worker's memory, beside the heap: Spark's own factor."""


class EmrStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        emr: Emr,
        bucket_name: str,
        bucket_arn: str,
        **options: object,
    ) -> None:
        super().__init__(scope, name, **options)
        logs = f"s3://{bucket_name}/{SPARK_LOGS}"
        self._code = spark_code(self, "Code", environment)
        self._entry_point = spark_entry_point(self, "EntryPoint")
        application = self._make_application(environment, emr, logs)
        role = self._make_role(environment, application, bucket_arn)
        self.addresses = EmrAddresses(
            application_id=application.attr_application_id,
            application_arn=application.attr_arn,
            role_arn=role.role_arn,
            entry_point=self._entry_point.s3_object_url,
            code=self._code.s3_object_url,
            logs=logs,
            runs=emr.runs,
        )

    def _make_application(
        self, environment: Environment, emr: Emr, logs: str
    ) -> emrserverless.CfnApplication:
        application = emrserverless.CfnApplication
        return application(
            self,
            "Application",
            name=f"{environment.prefix}-spark",
            release_label=RELEASE,
            type="SPARK",
            architecture=("ARM64" if environment.architecture is Architecture.ARM64 else "X86_64"),
            maximum_capacity=application.MaximumAllowedResourcesProperty(
                cpu=f"{emr.vcpus} vCPU", memory=f"{emr.memory_gb} GB", disk=f"{emr.disk_gb} GB"
            ),
            # No initial capacity: workers that wait for work are paid for.
            auto_start_configuration=application.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=application.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=emr.idle_minutes
            ),
            scheduler_configuration=application.SchedulerConfigurationProperty(
                max_concurrent_runs=emr.runs
            ),
            monitoring_configuration=application.MonitoringConfigurationProperty(
                s3_monitoring_configuration=application.S3MonitoringConfigurationProperty(
                    log_uri=logs
                ),
                # For Spark's own pages about a run.
                managed_persistence_monitoring_configuration=(
                    application.ManagedPersistenceMonitoringConfigurationProperty(enabled=True)
                ),
            ),
            runtime_configuration=[
                application.ConfigurationObjectProperty(
                    classification="spark-defaults", properties=_spark_defaults(emr)
                )
            ],
        )

    def _make_role(
        self,
        environment: Environment,
        application: emrserverless.CfnApplication,
        bucket_arn: str,
    ) -> iam.Role:
        listing = iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[bucket_arn],
            conditions={"StringLike": {"s3:prefix": ["org/*/dataset/*", "org/*/run/*"]}},
        )
        statements = [
            iam.PolicyStatement(
                actions=["s3:GetObject"],
                resources=[
                    # Also that of former releases, whose runs go on while a new one arrives.
                    f"arn:{Aws.PARTITION}:s3:::{self._code.s3_bucket_name}/*",
                    f"{bucket_arn}/org/*/dataset/*",
                ],
            ),
            # Spark moves and removes files of its own while it writes. The platform copies what a
            # run lists to where no run can write, and only that is ever read as rows.
            iam.PolicyStatement(
                actions=[
                    *("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
                    "s3:AbortMultipartUpload",
                ],
                resources=[f"{bucket_arn}/org/*/run/*"],
            ),
            iam.PolicyStatement(
                actions=["s3:PutObject"], resources=[f"{bucket_arn}/{SPARK_LOGS}*"]
            ),
            listing,
        ]
        return iam.Role(
            self,
            "Run",
            role_name=f"{environment.prefix}-spark",
            description="Runs of PySpark operators: started with a policy for each attempt",
            assumed_by=iam.ServicePrincipal(
                SPARK_SERVICE,
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnLike": {"aws:SourceArn": application.attr_arn},
                },
            ),
            inline_policies={"run": iam.PolicyDocument(statements=statements)},
        )


def _spark_defaults(emr: Emr) -> dict[str, str]:
    """Sizes of workers; what decides about rows is set by the jobs themselves, everywhere."""
    return {
        "spark.driver.cores": str(DRIVER_VCPUS),
        "spark.driver.memory": _heap(DRIVER_GB),
        "spark.executor.cores": str(EXECUTOR_VCPUS),
        "spark.executor.memory": _heap(EXECUTOR_GB),
        # No catalog of the account: user SQL has its inputs, and no other table to name.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": str(emr.executors),
    }


def _heap(worker_gb: int) -> str:
    return f"{int(worker_gb / (1 + _OVERHEAD))}g"
