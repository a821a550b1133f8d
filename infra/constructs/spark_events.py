"""State changes of Spark runs, as EventBridge hears them from EMR Serverless."""

from __future__ import annotations

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.constructs.python_function import EVENT_AGE, PythonFunction

SEEN = ["RUNNING", "SUCCESS", "FAILED", "CANCELLED"]
"""A run begins, or ends; what lies between changes nothing for its task."""


class SparkEvents(Construct):
    def __init__(
        self, scope: Construct, name: str, *, application_id: str, function: PythonFunction
    ) -> None:
        super().__init__(scope, name)
        self.rule = events.Rule(
            self,
            "Rule",
            description="A Spark run begins or ends; the Dispatcher looks for those that were lost",
            event_pattern=events.EventPattern(
                source=["aws.emr-serverless"],
                detail_type=["EMR Serverless Job Run State Change"],
                detail={"applicationId": [application_id], "state": SEEN},
            ),
            targets=[
                targets.LambdaFunction(function.function, retry_attempts=2, max_event_age=EVENT_AGE)
            ],
        )
