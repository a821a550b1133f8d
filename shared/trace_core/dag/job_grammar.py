"""The keys of a job."""

from __future__ import annotations

import re

from trace_core.dag import model
from trace_core.dag.containers import Key, ListOf, Object
from trace_core.dag.dag_shapes import Config, Where
from trace_core.dag.shapes import Boolean, Choice, Integer, Refusal, Text
from trace_core.dag.words import (
    COLUMNS,
    NAME,
    NO_MODE,
    NO_OUTPUT_INDEX,
    NO_SECRETS,
    NO_UDF_SECRETS,
    OUTPUTS_MAX,
    words,
)
from trace_core.kernel import limits

SECONDS_MAX = int(limits.PLATFORM_MAX_TIMEOUT.total_seconds())
HEARTBEAT_MAX = int(limits.TASK_LEASE.total_seconds()) // 3
JOB_INPUTS_MAX = 100

_BULK = Refusal(
    "is not an execution strategy: batching is part of the DAG, not of the Dispatcher",
    "use `PerPartition` behind a `range_aggregator` or `range_splitter` job",
)
_ECS = Refusal(
    "is not a runtime: there are no container runtimes",
    "use `worker` for work of up to 15 minutes, `emr_serverless` for heavy data work",
)

LIMITS = {
    "max_attempts": Key(
        Integer(1, 100),
        "How often a task is tried before it ends Failed.",
        default=str(limits.TASK_MAX_ATTEMPTS),
    ),
    "timeout_seconds": Key(
        Integer(1, SECONDS_MAX),
        "How long one attempt may run; at most 900 unless the runtime is `emr_serverless`.",
        default=str(int(limits.TASK_TIMEOUT.total_seconds())),
    ),
    "heartbeat_seconds": Key(
        Integer(1, HEARTBEAT_MAX),
        "How often a running task extends its lease; at most a third of the lease.",
        default=str(int(limits.HEARTBEAT_INTERVAL.total_seconds())),
    ),
    "priority": Key(
        Choice(words(model.Priority)),
        "Live work goes before backfill.",
        default="live",
    ),
}

SOURCE = Object(
    {
        "kind": Key(
            Choice(words(model.SourceKind)),
            "What makes the source produce: it runs always, by schedule, on request, on a call.",
            required=True,
        ),
        "schedule": Key(
            Text(longest=100),
            "Five cron fields in UTC (`*/5 * * * *`); with `kind: cron` only.",
        ),
        "path": Key(
            Text(
                re.compile(r"(?:/[a-z0-9][a-z0-9_-]*)+"),
                "a path such as `/orders/new` in lower case",
                longest=200,
                fix=lambda text: f"/{text}" if re.fullmatch(r"[a-z0-9][a-z0-9_-]*", text) else None,
            ),
            "What the webhook is for, unique in the DAG; `trace hook show` has its address. "
            "With `kind: webhook` only.",
        ),
    },
    refused={
        "cron": Refusal("has another name here", "write `kind: cron` and `schedule: …`", "schedule")
    },
    example="`{ kind: always_on }`",
)

ORIGIN = Object(
    {
        "job": Key(NAME, "A job of this DAG."),
        "output": Key(Integer(0, OUTPUTS_MAX - 1), "Which of its outputs, from 0."),
        "dataset": Key(NAME, "A published dataset, instead of `job` and `output`."),
    },
    refused={"output_index": NO_OUTPUT_INDEX},
    extra_schema={"oneOf": [{"required": ["job", "output"]}, {"required": ["dataset"]}]},
    example="`{ job: name, output: 0 }` or `{ dataset: name }`",
)

INPUT = Object(
    {
        "from": Key(ORIGIN, "What is read.", required=True),
        "as": Key(
            NAME,
            "The name under which code and SQL see this input.",
            default="the name of the job or dataset",
        ),
        "where": Key(Where(), "Reads only the rows for which this holds."),
        "trigger": Key(
            Boolean(),
            "Its events make tasks; the other inputs are read at their pin.",
            default="true for the first input if no input says `trigger: true`",
        ),
    },
    refused={
        "alias": Refusal("has another name here", "write `as`", "as"),
        "filter": Refusal("has another name here", "write `where`", "where"),
    },
    example="`- from: { job: name, output: 0 }`",
)

UDF = Object(
    {
        "bundle": Key(
            Text(re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"), "the id of an uploaded bundle"),
            "Which upload.",
            required=True,
        ),
        "entrypoint": Key(
            Text(
                re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+"),
                "a function such as `rules.handler`",
            ),
            "Which function of it, as `module.function`.",
            required=True,
        ),
    },
    refused={"secrets": NO_UDF_SECRETS},
    example="`{ bundle: …, entrypoint: rules.handler }`",
)

JOB = Object(
    {
        "name": Key(NAME, "Unique within the DAG.", required=True),
        "activation": Key(
            Choice(words(model.Activation)),
            "A source produces by itself, a reactive job when its inputs change.",
            required=True,
        ),
        "runtime": Key(
            Choice(words(model.Runtime), ((re.compile(r"(?i)ecs(_.*)?"), _ECS),)),
            "Where it runs.",
            required=True,
        ),
        "operator": Key(NAME, "An operator of the catalog. Either this or `udf`."),
        "udf": Key(UDF, "The user's own code. Either this or `operator`."),
        "source": Key(SOURCE, "What starts a source job; required for sources only."),
        "bootstrap": Key(
            Object({"reset_outputs": Key(Boolean(), "Start with empty outputs.", default="false")}),
            "What a source does when it is deployed for the first time.",
        ),
        "inputs": Key(
            ListOf(INPUT, 1, JOB_INPUTS_MAX, example="`- from: { job: name, output: 0 }`"),
            "What a reactive job reads; required for reactive jobs only.",
        ),
        "execution_strategy": Key(
            Choice(words(model.ExecutionStrategy), ((re.compile("(?i)bulk"), _BULK),)),
            "One task for each event, or for each partition; required for reactive jobs only.",
        ),
        "outputs": Key(Integer(0, OUTPUTS_MAX), "How many outputs it writes.", required=True),
        "update_strategy": Key(
            Choice(words(model.UpdateStrategy)),
            "Replace the scope that is written again, or only add rows that are new by "
            "`unique_key`. Required when there are outputs; control operators may leave it out.",
            default="replace",
        ),
        "unique_key": Key(COLUMNS, "What makes a row the same row; with `append` only."),
        "config": Key(Config(), "The operator's own settings."),
        "worker_pool": Key(NAME, "Each running task holds one slot of this pool."),
        "scaling": Key(
            Object(
                {
                    "max_concurrency": Key(
                        Integer(1, 10_000),
                        "How many tasks run at once; never more than the pool has slots.",
                        required=True,
                    )
                },
                refused={
                    "mode": Refusal(
                        "is not supported: capacity is a number",
                        "use `max_concurrency`",
                        "max_concurrency",
                    )
                },
                example="`{ max_concurrency: 10 }`",
            ),
            "How far the job scales out.",
        ),
        "backpressure": Key(
            Object(
                {
                    "max_queued": Key(
                        Integer(1, 1_000_000_000),
                        "With more queued tasks than this, the source that feeds it pauses.",
                        required=True,
                    )
                },
                example="`{ max_queued: 500 }`",
            ),
            "When the sources in front of the job pause.",
        ),
        **{
            name: Key(key.shape, key.description, default=f"`defaults.{name}`")
            for name, key in LIMITS.items()
        },
    },
    refused={
        "mode": NO_MODE,
        "secrets": NO_SECRETS,
        "env": Refusal("cannot be set on a job", "set it in a slot of `worker_pools`"),
        "publish": Refusal("is not part of a job", "write it under the top-level `publish`"),
    },
    refused_beside={("secrets", "udf"): NO_UDF_SECRETS},
)
