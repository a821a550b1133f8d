"""Alarms, each of which names its runbook, and the topic that they go to."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.alarms import (
    ALARMS,
    DATABASE,
    DEAD_LETTERS,
    FUNCTION_ERRORS,
    THROTTLES,
    Alarm,
    Statistic,
)
from infra.constructs.queue_with_dlq import DEAD_SUFFIX
from infra.environments import Database, Environment
from infra.functions import FUNCTIONS

NAMESPACE = "Trace"
_MINUTE = Duration.minutes(1)
_FREE_STORAGE = 5 * 1024**3


class ObservabilityStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        database_ids: Mapping[str, str],
        **options: object,
    ) -> None:
        super().__init__(scope, name, **options)
        self._environment = environment
        self._topic = self._make_topic()
        for alarm in ALARMS:
            self._add_of_trace(alarm)
        for function in FUNCTIONS:
            dimensions = {"FunctionName": environment.function_name(function.name)}
            for metric, runbook in (("Errors", FUNCTION_ERRORS), ("Throttles", THROTTLES)):
                self._add(
                    f"{metric}-{function.name}",
                    runbook,
                    self._metric("AWS/Lambda", metric, dimensions, Statistic.SUM),
                    threshold=0,
                    minutes=5,
                )
        for org in environment.orgs:
            dead = f"{environment.queue_name(org)}{DEAD_SUFFIX}"
            self._add(
                f"DeadLetters-{org.name}",
                DEAD_LETTERS,
                self._metric(
                    "AWS/SQS",
                    "ApproximateNumberOfMessagesVisible",
                    {"QueueName": dead},
                    Statistic.MAXIMUM,
                ),
                threshold=0,
                minutes=1,
            )
        servers = {"Database": environment.database, "DataDatabase": environment.data_database}
        for title, database_id in database_ids.items():
            server = servers[title]
            if isinstance(server, Database):
                self._add_database(title, database_id, server)

    def _make_topic(self) -> sns.Topic:
        topic = sns.Topic(
            self,
            "Alarms",
            topic_name=f"{self._environment.prefix}-alarms",
            enforce_ssl=True,
        )
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        for address in self._environment.alarm_emails:
            topic.add_subscription(subscriptions.EmailSubscription(address))
        return topic

    def _add_of_trace(self, alarm: Alarm) -> None:
        self._add(
            alarm.name,
            alarm.runbook,
            self._metric(NAMESPACE, alarm.metric, {"service": alarm.service}, alarm.statistic),
            threshold=alarm.threshold,
            minutes=alarm.minutes,
            below=alarm.below,
            silence_alarms=alarm.silence_alarms,
        )

    def _add_database(self, title: str, database_id: str, database: Database) -> None:
        dimensions = {"DBInstanceIdentifier": database_id}
        for metric, statistic, threshold, below in (
            ("FreeStorageSpace", Statistic.MINIMUM, _FREE_STORAGE, True),
            ("CPUUtilization", Statistic.MINIMUM, 90, False),
            ("DatabaseConnections", Statistic.MAXIMUM, 0.9 * database.connections, False),
        ):
            self._add(
                f"{title}-{metric}",
                DATABASE,
                self._metric("AWS/RDS", metric, dimensions, statistic),
                threshold=threshold,
                minutes=15,
                below=below,
            )

    def _metric(
        self, namespace: str, metric: str, dimensions: Mapping[str, str], statistic: Statistic
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=metric,
            dimensions_map=dict(dimensions),
            statistic=statistic.value,
            period=_MINUTE,
        )

    def _add(
        self,
        name: str,
        runbook: str,
        metric: cloudwatch.Metric,
        *,
        threshold: float,
        minutes: int,
        below: bool = False,
        silence_alarms: bool = False,
    ) -> None:
        compare = cloudwatch.ComparisonOperator
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._environment.prefix}-{name}",
            alarm_description=f"Runbook: docs/runbooks/{runbook}.md",
            metric=metric,
            threshold=threshold,
            evaluation_periods=minutes,
            datapoints_to_alarm=minutes,
            comparison_operator=(
                compare.LESS_THAN_THRESHOLD if below else compare.GREATER_THAN_THRESHOLD
            ),
            treat_missing_data=(
                cloudwatch.TreatMissingData.BREACHING
                if silence_alarms
                else cloudwatch.TreatMissingData.NOT_BREACHING
            ),
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))
