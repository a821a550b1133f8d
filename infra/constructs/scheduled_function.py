"""A function that runs once a minute: the sweep that finds what a lost push left behind."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.constructs.python_function import EVENT_AGE, PythonFunction


class EveryMinute(Construct):
    def __init__(self, scope: Construct, name: str, *, function: PythonFunction) -> None:
        super().__init__(scope, name)
        self.rule = events.Rule(
            self,
            "Rule",
            description="Once a minute, the shortest that EventBridge has",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[
                # The next minute asks again, so EventBridge need not.
                targets.LambdaFunction(function.function, retry_attempts=0, max_event_age=EVENT_AGE)
            ],
        )
