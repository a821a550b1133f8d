"""Every alarm, with the runbook that it names. The thresholds are those of the runbooks' index."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Statistic(StrEnum):
    MAXIMUM = "Maximum"
    MINIMUM = "Minimum"
    SUM = "Sum"
    P99 = "p99"


@dataclass(frozen=True)
class Alarm:
    """One metric of `Trace` and the service that publishes it, over or under a threshold."""

    name: str
    runbook: str
    metric: str
    service: str
    threshold: float
    minutes: int
    """How long it must last."""
    statistic: Statistic = Statistic.MAXIMUM
    below: bool = False
    silence_alarms: bool = False
    """Whether no figure at all is as bad: then nobody writes it any more."""


ALARMS = (
    Alarm("BacklogAge", "backlog", "BacklogAge", "reaper", 300, 10),
    Alarm("LeaseLag", "leases", "LeaseLag", "reaper", 120, 5, silence_alarms=True),
    Alarm("TasksReaped", "leases", "TasksReaped", "reaper", 0, 15, Statistic.MINIMUM),
    Alarm(
        "ReservationsLapsed",
        "reservations",
        "ReservationsLapsed",
        "reaper",
        0,
        15,
        Statistic.MINIMUM,
    ),
    Alarm("TaskRetries", "retries", "TaskRetries", "reaper", 100, 15, Statistic.SUM),
    Alarm("TasksFailed", "tasks_failed", "TasksFailed", "reaper", 0, 1, Statistic.SUM),
    Alarm("SourcesFailing", "sources", "SourcesFailing", "reaper", 0, 10, Statistic.MINIMUM),
    Alarm("OutboxPending", "outbox_pending", "OutboxPending", "reaper", 1000, 5),
    Alarm("OutboxAge", "outbox_pending", "OutboxAge", "reaper", 120, 5),
    Alarm(
        "OutboxRetries", "outbox_pending", "OutboxRetries", "outbox_relay", 0, 15, Statistic.MINIMUM
    ),
    Alarm("OutboxFailed", "outbox_failed", "OutboxFailed", "reaper", 0, 1),
    Alarm("OutboxGivenUp", "outbox_failed", "OutboxGivenUp", "outbox_relay", 0, 1, Statistic.SUM),
    Alarm(
        "DispatcherSwept", "dispatcher", "DispatcherSwept", "dispatcher", 0, 15, Statistic.MINIMUM
    ),
    Alarm("SparkRunWaiting", "spark_runs", "SparkRunWaiting", "dispatcher", 1800, 15),
    Alarm("SparkCancelAge", "spark_runs", "SparkCancelAge", "dispatcher", 1800, 15),
    Alarm("SparkEndAge", "spark_runs", "SparkEndAge", "dispatcher", 900, 15),
    Alarm("CommitsRefused", "commits", "CommitsRefused", "dispatcher", 0, 1, Statistic.SUM),
    Alarm("PurgesOverdue", "purge", "PurgesOverdue", "staging_cleanup", 0, 60, Statistic.MINIMUM),
    Alarm("DeployAge", "deploys", "DeployAge", "reaper", 21_600, 15),
    Alarm("DeploysStuck", "deploys", "DeploysStuck", "reaper", 0, 10, Statistic.MINIMUM),
    Alarm("JobsForbidden", "read_rights", "JobsForbidden", "reaper", 0, 1),
    Alarm("SlotsQuarantined", "slots", "SlotsQuarantined", "reaper", 0, 15, Statistic.MINIMUM),
    Alarm(
        "HistoryMonthsAhead",
        "history_partitions",
        "HistoryMonthsAhead",
        "dispatcher",
        2,
        60,
        Statistic.MINIMUM,
        below=True,
        silence_alarms=True,
    ),
    *(
        Alarm(f"Requests5xx-{api}", "api_errors", "Requests5xx", api, 0, 5, Statistic.SUM)
        for api in ("user_api", "internal_api", "task_api")
    ),
    *(
        Alarm(f"Latency-{api}", "api_errors", "Latency", api, 1000, 15, Statistic.P99)
        for api in ("user_api", "internal_api", "task_api")
    ),
)

FUNCTION_ERRORS = "function_errors"
"""Of every function, as Lambda counts them: those that could not even start are in it too."""
THROTTLES = "function_errors"
DEAD_LETTERS = "dead_letters"
"""Of every dead-letter queue."""
DATABASE = "database"
"""Of each server of a database, where it is ours."""
