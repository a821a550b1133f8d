"""Operators that only tests use: each behaves, or misbehaves, in one way."""

from __future__ import annotations

import ctypes
import inspect
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import Field

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, OperatorFailed, Result, Rows, TaskContext
from trace_core.operators.configs import OperatorConfig


class NoConfig(OperatorConfig):
    """Nothing to set."""


class EmitCursorsConfig(OperatorConfig):
    per_slice: int = Field(default=10, ge=1, le=10_000)
    stop_at: int | None = Field(default=None, ge=0)
    rest_seconds: float = Field(default=0.0, ge=0)


class EmitCursors:
    """An always-on source: the next cursors, from where the last slice ended."""

    def run(self, task: TaskContext[EmitCursorsConfig]) -> Result:
        row = task.state.get("next")
        first = row.value if row else 0
        last = first + task.config.per_slice
        if task.config.stop_at is not None:
            last = min(last, task.config.stop_at)
        rest = timedelta(seconds=3600 if last == first else task.config.rest_seconds)
        events = [Emit(0, Scope(cursor=cursor)) for cursor in range(first, last)]
        return Result(events=events, state={"next": last}, resume_after=rest)


class PassOn:
    """Announces what triggered it, on its own output."""

    def run(self, task: TaskContext[OperatorConfig]) -> Result:
        if task.trigger is None:
            raise OperatorFailed("needs a trigger")
        return Result(events=[Emit(0, task.trigger.scope, task.trigger.revision)])


class SleepConfig(OperatorConfig):
    seconds: float = Field(default=60.0, ge=0)
    cooperative: bool = False
    ignores_cancel: bool = False
    grandchild: bool = False
    marker: str | None = None
    """A file that appears when the sleep begins, with the process id in it."""


class Sleep:
    def run(self, task: TaskContext[SleepConfig]) -> Result:
        print("falling asleep")
        pid = os.getpid()
        if task.config.grandchild:
            pid = subprocess.Popen(["sleep", "60"]).pid
        if task.config.marker:
            Path(task.config.marker).write_text(str(pid))
        wake_at = time.monotonic() + task.config.seconds
        while time.monotonic() < wake_at:
            if task.config.cooperative and task.canceled():
                print("canceled, and so awake")
                return Result()
            time.sleep(0.02)
        return Result()


class CrashOnceConfig(OperatorConfig):
    marker: str
    how: str = "kill"


class CrashOnce:
    """Dies the first time, and passes on the second."""

    def run(self, task: TaskContext[CrashOnceConfig]) -> Result:
        marker = Path(task.config.marker)
        if marker.exists():
            return PassOn().run(task) if task.trigger else Result()
        marker.touch()
        print("about to crash")
        match task.config.how:
            case "kill":
                os.kill(os.getpid(), 9)
            case "segfault":
                ctypes.string_at(0)
            case "os_exit":
                os._exit(7)
        sys.exit(3)


class FailConfig(OperatorConfig):
    message: str = "it did not work"
    retryable: bool = False
    kind: str = "operator"


class Fail:
    def run(self, task: TaskContext[FailConfig]) -> Result:
        if task.config.kind == "value":
            raise ValueError("\ud800\x00 " + task.config.message)
        raise OperatorFailed(task.config.message, retryable=task.config.retryable)


class AskUpstreamConfig(OperatorConfig):
    times: int = 1
    blames: str | None = None
    """Fails, and says that its upstream is to blame for it."""
    searches: bool = False
    """Prints what its process holds, from the end: no redaction knows that."""


class AskUpstream:
    """Calls the upstream of its slot, and prints what it was told."""

    def run(self, task: TaskContext[AskUpstreamConfig]) -> Result:
        for _ in range(task.config.times):
            request = urllib.request.Request(task.env["RPC_URL"], b"{}")  # noqa: S310
            try:
                with urllib.request.urlopen(request) as answer:  # noqa: S310
                    print("told", answer.read().decode())
            except urllib.error.HTTPError as error:
                raise OperatorFailed(error.read().decode(), retryable=True) from error
        if task.config.searches:
            for each in inspect.stack():
                print(repr(each.frame.f_locals)[::-1])
        if task.config.blames is not None:
            failed = OperatorFailed("it lies", retryable=True)
            failed.upstream_fault = task.config.blames
            raise failed
        return Result()


class EchoEnvConfig(OperatorConfig):
    names: list[str] = Field(default_factory=list)
    fail: bool = False
    leave: dict[str, str] = Field(default_factory=dict)
    """Put into the environment and left there."""


class EchoEnv:
    """Prints the environment that it sees."""

    def run(self, task: TaskContext[EchoEnvConfig]) -> Result:
        for name in task.config.names or sorted(os.environ):
            print(f"{name}={os.environ.get(name)}")
        print("initial", Path("/proc/self/environ").read_bytes().replace(b"\0", b"\n").decode())
        os.environ.update(task.config.leave)
        if task.config.fail:
            raise ValueError(f"refused with {dict(task.env)}")
        return Result()


class ShoutConfig(OperatorConfig):
    megabytes: int = 8


class Shout:
    """Prints more than a log holds."""

    def run(self, task: TaskContext[ShoutConfig]) -> Result:
        print("first line")
        for _ in range(task.config.megabytes):
            sys.stdout.write("x" * (1024 * 1024 - 1) + "\n")
        print("last line", file=sys.stderr)
        return Result()


class BadResultConfig(OperatorConfig):
    kind: str


class BadResult:
    """Returns what cannot be reported."""

    def run(self, task: TaskContext[BadResultConfig]) -> Any:
        return {
            "nothing": None,
            "not_json": Result(state={"key": object()}),
            "nan": Result(state={"key": float("nan")}),
            "unknown_output": Result(events=[Emit(7, Scope(cursor=1))]),
            "negative": Result(events=[Emit(0, Scope(cursor=-1))]),
            "not_an_event": Result(events=["hello"]),  # type: ignore[list-item]
        }[task.config.kind]


class EmitMidTaskConfig(OperatorConfig):
    early: int = 3
    final: int = 1


class EmitMidTask:
    def run(self, task: TaskContext[EmitMidTaskConfig]) -> Result:
        early, final = task.config.early, task.config.final
        if early:
            task.emit([Emit(0, Scope(cursor=cursor)) for cursor in range(early)])
        task.log.info("emitted %s, ätsch", early)
        return Result(
            events=[Emit(0, Scope(cursor=cursor)) for cursor in range(early, early + final)]
        )


class CopyRowsConfig(OperatorConfig):
    alias: str = "source"
    output: int = 0
    threads: int = 1
    emit: bool = False
    state: bool = False


class CopyRows:
    """Reads an input and answers its rows, for the scope of the trigger."""

    def run(self, task: TaskContext[CopyRowsConfig]) -> Result:
        config = task.config
        if config.state:
            return Result(state={"next": task.state["next"].value + 1})
        scope = task.trigger.scope if task.trigger else Scope()
        with ThreadPoolExecutor(config.threads) as threads:
            tables = list(
                threads.map(
                    lambda _: task.read(config.alias, columns=["number"]), range(config.threads)
                )
            )
        assert all(each == tables[0] for each in tables)
        rows = Rows(config.output, scope, tables[0], cursor_column="number", name="copy")
        return Result(events=[Emit(0, scope)] if config.emit else [], outputs=[rows])


def _spec(name: str, made: type, config: type[OperatorConfig], **more: Any) -> OperatorSpec:
    fields: dict[str, Any] = {
        "activations": frozenset({Activation.REACTIVE}),
        "source_kinds": frozenset[SourceKind](),
        **more,
    }
    return OperatorSpec(
        name=name,
        code_version="1",
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        config=config,
        description=(made.__doc__ or name).splitlines()[0],
        implementation=f"{__name__}:{made.__name__}",
        **fields,
    )


OPERATORS: list[OperatorSpec] = [
    _spec(
        "emit_cursors",
        EmitCursors,
        EmitCursorsConfig,
        activations=frozenset({Activation.SOURCE}),
        source_kinds=frozenset({SourceKind.ALWAYS_ON}),
    ),
    _spec("pass_on", PassOn, NoConfig),
    _spec("sleep", Sleep, SleepConfig),
    _spec("crash_once", CrashOnce, CrashOnceConfig),
    _spec("fail", Fail, FailConfig),
    _spec("ask_upstream", AskUpstream, AskUpstreamConfig),
    _spec("echo_env", EchoEnv, EchoEnvConfig),
    _spec("shout", Shout, ShoutConfig),
    _spec("bad_result", BadResult, BadResultConfig),
    _spec("emit_mid_task", EmitMidTask, EmitMidTaskConfig),
    _spec("copy_rows", CopyRows, CopyRowsConfig),
]
