"""Rules between the keys of one job, and between a job and its operator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.config_rules import check_config
from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.model import Activation, Runtime, SourceKind, capability_token_lifetime
from trace_core.dag.problems import Path, one_of, shown

_ANY_TIME = datetime(2025, 1, 1, tzinfo=UTC)


def check_job(job: Record, catalog: Catalog, found: Findings) -> None:
    spec = _operator(job, catalog, found)
    if job.get("activation") == Activation.SOURCE:
        _source(job, spec, found)
    elif job.get("activation") == Activation.REACTIVE:
        _reactive(job, found)
    _inputs(job, found)
    _updates(job, spec, found)
    _times(job, found)
    if spec:
        _fits_operator(job, spec, found)
        check_config(job, spec, found)


def _operator(job: Record, catalog: Catalog, found: Findings) -> OperatorSpec | None:
    if job.has("operator") and job.has("udf"):
        found.key(
            (*job.path, "udf"),
            "operator_and_udf",
            "a job has an `operator` or a `udf`, not both",
            "remove one of the two",
        )
        return None
    if job.has("udf"):
        _udf(job, found)
        return None
    if not job.has("operator"):
        found.value(
            (*job.path, "operator"),
            "missing",
            "is missing: a job needs an `operator` or a `udf`",
            "add `operator:` with the name of an operator",
        )
        return None
    name = job.get("operator")
    if name is not None and name not in catalog:
        near = catalog.nearest(name)
        better = f"did you mean `{near}`?" if near else f"known: {', '.join(sorted(catalog))}"
        reason = f"there is no operator {shown(name)}"
        found.value((*job.path, "operator"), "unknown_operator", reason, better)
        return None
    return catalog[name] if name is not None else None


def _udf(job: Record, found: Findings) -> None:
    if job.get("activation") == Activation.SOURCE:
        found.value(
            (*job.path, "activation"),
            "udf_source",
            "user code reacts to data; it cannot be a source",
            "write `activation: reactive` and `inputs`",
        )
    runtime = job.get("runtime")
    if runtime not in (None, Runtime.LAMBDA):
        found.value(
            (*job.path, "runtime"),
            "udf_runtime",
            f"user code does not run in `{runtime}`",
            "write `runtime: lambda`",
        )


def _source(job: Record, spec: OperatorSpec | None, found: Findings) -> None:
    for key in ("inputs", "execution_strategy", "backpressure"):
        if job.has(key):
            found.key(
                (*job.path, key),
                "not_for_sources",
                f"a source job has no `{key}`",
                "remove it, or write `activation: reactive` if the job reads inputs",
            )
    if not job.has("source"):
        kinds = sorted(spec.source_kinds) if spec else list(SourceKind)
        found.value(
            (*job.path, "source"),
            "missing",
            "is missing: a source job says what starts it",
            f"add `source: {{ kind: {kinds[0] if kinds else 'manual'} }}`",
        )
    source = job.get("source")
    if isinstance(source, Record):
        _source_kind(source, spec, found)


def _source_kind(source: Record, spec: OperatorSpec | None, found: Findings) -> None:
    kind = source.get("kind")
    if kind is None:
        return
    if spec and spec.source_kinds and SourceKind(kind) not in spec.source_kinds:
        found.value(
            (*source.path, "kind"),
            "kind_not_allowed",
            f"the operator `{spec.name}` is not started by `{kind}`",
            f"write {one_of(sorted(spec.source_kinds))}",
        )
    for key, owner, example in (
        ("schedule", SourceKind.CRON, '`schedule: "*/5 * * * *"`'),
        ("path", SourceKind.WEBHOOK, "`path: /my/hook`"),
    ):
        if kind == owner and not source.has(key):
            found.value(
                (*source.path, key), "missing", f"is missing for `kind: {kind}`", f"add {example}"
            )
        if kind != owner and source.has(key):
            found.key(
                (*source.path, key),
                "not_for_kind",
                f"`{key}` belongs to `kind: {owner}`",
                f"remove it, or write `kind: {owner}`",
            )
    schedule = source.get("schedule")
    if schedule is not None:
        _schedule(schedule, (*source.path, "schedule"), found)


def _schedule(schedule: str, path: Path, found: Findings) -> None:
    fields = len(schedule.split())
    if fields != 5:
        reason = f"{shown(schedule)} has {fields} field{'' if fields == 1 else 's'}; cron has five"
        better = "write minute, hour, day of month, month, day of week: `0 6 * * 1`"
        found.value(path, "bad_schedule", reason, better)
        return
    try:
        next(CronSim(schedule, _ANY_TIME))
    except CronSimError as error:
        part = str(error).removeprefix("Bad ").replace("-", " ")
        reason = f"{shown(schedule)} is not a cron schedule: no such {part}"
        better = "write minute, hour, day of month, month, day of week: `0 6 * * 1`"
        found.value(path, "bad_schedule", reason, better)
    except StopIteration:
        reason = f"{shown(schedule)} never comes"
        found.value(path, "bad_schedule", reason, "write a date that exists")


def _reactive(job: Record, found: Findings) -> None:
    for key in ("source", "bootstrap"):
        if job.has(key):
            found.key(
                (*job.path, key),
                "only_for_sources",
                f"`{key}` belongs to source jobs",
                "remove it, or write `activation: source`",
            )
    for key, example in (
        ("inputs", "`inputs:` with `- from: { job: name, output: 0 }`"),
        ("execution_strategy", "`execution_strategy: PerUpdate` or `PerPartition`"),
    ):
        if not job.has(key):
            reason = "is missing: a reactive job needs it"
            found.value((*job.path, key), "missing", reason, f"add {example}")


def _inputs(job: Record, found: Findings) -> None:
    aliases: dict[str, int] = {}
    triggers = []
    for index, each in job.records("inputs"):
        triggers.append(each.get("trigger") if each.has("trigger") else None)
        alias = input_alias(each)
        if alias is None:
            continue
        if alias in aliases:
            reason = f"the name `{alias}` is already used by input {aliases[alias]}"
            better = "give it another name with `as`"
            path = (*each.path, "as")
            found.value(path, "duplicate_alias", reason, better)
        aliases.setdefault(alias, index)
    # Without any `trigger: true` the first input triggers, unless it was told not to.
    if triggers and True not in triggers and triggers[0] is False:
        found.value(
            (*job.path, "inputs", 0, "trigger"),
            "no_trigger",
            "no input triggers this job, so it would never run",
            "write `trigger: true` at one input, or remove this line",
        )


def input_alias(each: Record) -> str | None:
    """The name the input has, or gets from what it reads."""
    origin = each.get("from")
    name = None
    if each.has("as"):
        name = each.get("as")
    elif isinstance(origin, Record):
        name = origin.get("dataset") or origin.get("job")
    return name if isinstance(name, str) else None


def _updates(job: Record, spec: OperatorSpec | None, found: Findings) -> None:
    outputs, strategy = job.get("outputs"), job.get("update_strategy")
    if outputs == 0:
        for key in ("update_strategy", "unique_key"):
            if job.has(key):
                found.key(
                    (*job.path, key), "no_outputs", "a job without outputs has none", "remove it"
                )
        return
    known = spec is not None or job.has("udf")
    if outputs and not job.has("update_strategy") and known and not (spec and spec.control):
        found.value(
            (*job.path, "update_strategy"),
            "missing",
            "is missing: outputs are replaced or appended to",
            "add `update_strategy: replace`, or `append` with a `unique_key`",
        )
    if strategy == "append" and not job.has("unique_key"):
        found.value(
            (*job.path, "unique_key"),
            "missing",
            "is missing: `append` tells rows apart by it",
            "add `unique_key: [column]`",
        )
    if job.has("unique_key") and (strategy == "replace" or not job.has("update_strategy")):
        found.key(
            (*job.path, "unique_key"),
            "unique_key_with_replace",
            "`replace` rewrites whole scopes and has no `unique_key`",
            "remove it, or write `update_strategy: append`",
        )


def _times(job: Record, found: Findings) -> None:
    seconds, runtime = job.get("timeout_seconds"), job.get("runtime")
    if seconds is None:
        return
    timeout, path = timedelta(seconds=seconds), (*job.path, "timeout_seconds")
    allowed = Runtime(runtime).max_timeout if runtime else None
    if allowed and timeout > allowed:
        most = int(allowed.total_seconds())
        found.value(
            path,
            "timeout_too_long",
            f"{seconds} is too long for `{runtime}`, which allows {most} seconds",
            f"write `{most}` or less, or use `emr_serverless`",
        )
    if capability_token_lifetime(timeout) < timeout:
        found.value(
            path,
            "token_too_short",
            "the task's capability token would expire before its timeout",
            "shorten the timeout",
        )


def _fits_operator(job: Record, spec: OperatorSpec, found: Findings) -> None:
    activation, runtime, outputs = job.get("activation"), job.get("runtime"), job.get("outputs")
    if activation and Activation(activation) not in spec.activations:
        found.value(
            (*job.path, "activation"),
            "activation_not_allowed",
            f"the operator `{spec.name}` is not a {activation} operator",
            f"write {one_of(sorted(spec.activations))}",
        )
    if runtime and Runtime(runtime) not in spec.runtimes:
        only = "the Dispatcher runs control work only, and " if runtime == "dispatcher" else ""
        found.value(
            (*job.path, "runtime"),
            "runtime_not_allowed",
            f"{only}the operator `{spec.name}` does not run in `{runtime}`",
            f"write {one_of(sorted(spec.runtimes))}",
        )
    if outputs is not None and not spec.allows_outputs(outputs):
        rule = spec.outputs_rule()
        found.value(
            (*job.path, "outputs"),
            "outputs_not_allowed",
            f"the operator `{spec.name}` has {rule}, not {outputs}",
            f"write `{spec.outputs}`" if isinstance(spec.outputs, int) else f"write {rule}",
        )
        # The number is wrong: what else refers to it is judged when it is right.
        del job.values["outputs"]
