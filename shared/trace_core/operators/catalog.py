"""Which operators exist: the built-in ones, and those a project adds with its own modules."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind
from trace_core.kernel.errors import Invalid
from trace_core.operators.configs import (
    RangeAggregatorConfig,
    RangeRequestConfig,
    RangeSplitterConfig,
    TriggerCronConfig,
)

SHIPPED = ("emr_jobs.catalog", "trace_chain.catalog")
"""Operators that come with the platform and that the core does not know: PySpark, and chains."""
_CONTROL_RUNTIMES = frozenset({Runtime.DISPATCHER, Runtime.WORKER, Runtime.LAMBDA})


def builtin_catalog() -> Catalog:
    return Catalog(
        OperatorSpec(
            name="range_aggregator",
            code_version="2",
            activations=frozenset({Activation.REACTIVE}),
            # Its state is read and written in the transaction that completes its tasks.
            runtimes=frozenset({Runtime.DISPATCHER}),
            control=True,
            announces_rewrites=True,
            config=RangeAggregatorConfig,
            source_kinds=frozenset(),
            description="Announces a range when all of it has arrived.",
            implementation="trace_core.operators.range_aggregator:RangeAggregator",
        ),
        OperatorSpec(
            name="range_splitter",
            code_version="1",
            activations=frozenset({Activation.REACTIVE}),
            runtimes=_CONTROL_RUNTIMES,
            control=True,
            announces_rewrites=True,
            config=RangeSplitterConfig,
            source_kinds=frozenset(),
            description="Cuts a large range into chunks, one event for each.",
            implementation="trace_core.operators.range_splitter:RangeSplitter",
        ),
        OperatorSpec(
            name="range_request",
            code_version="1",
            activations=frozenset({Activation.SOURCE}),
            runtimes=_CONTROL_RUNTIMES,
            control=True,
            config=RangeRequestConfig,
            source_kinds=frozenset({SourceKind.MANUAL, SourceKind.WEBHOOK}),
            description="Announces the range that somebody asked for.",
            implementation="trace_core.operators.range_request:RangeRequest",
        ),
        OperatorSpec(
            name="trigger_cron",
            code_version="1",
            activations=frozenset({Activation.SOURCE}),
            runtimes=_CONTROL_RUNTIMES,
            control=True,
            config=TriggerCronConfig,
            # How missed times are caught up changes when work happens, not what it writes.
            execution_only=frozenset({"catch_up", "max_catch_up"}),
            source_kinds=frozenset({SourceKind.CRON}),
            description="Announces each time of its schedule.",
            implementation="trace_core.operators.trigger_cron:TriggerCron",
        ),
    )


def load_catalog(modules: Sequence[str]) -> Catalog:
    """The operators of the platform and those of `modules`: dotted names or paths of .py files.

    Such a module defines `OPERATORS: list[OperatorSpec]`. Its code runs with the platform's
    rights, so only what an administrator installed may be named here.
    """
    operators: list[OperatorSpec] = []
    for name in dict.fromkeys((*SHIPPED, *modules)):
        operators.extend(_operators_of(name))
    return builtin_catalog().with_operators(*operators)


def _operators_of(name: str) -> list[OperatorSpec]:
    module = _from_file(Path(name)) if name.endswith(".py") else _from_name(name)
    operators = getattr(module, "OPERATORS", None)
    if not isinstance(operators, list | tuple) or not all(
        isinstance(each, OperatorSpec) for each in operators
    ):
        raise Invalid(f"{name} must define OPERATORS as a list of OperatorSpec", module=name)
    return list(operators)


def _from_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that exists but misses one of its own imports is a different mistake.
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise Invalid(f"there is no module {name}", module=name) from error
        raise Invalid(f"{name} needs the module {missing}", module=name) from error
    except (ImportError, ValueError, TypeError) as error:
        raise Invalid(f"{name} cannot be imported: {error}", module=name) from error


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise Invalid(f"there is no file {path}", module=str(path))
    # One name for each file, so that two projects' operators.py do not meet.
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    name = f"trace_operators_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Invalid(f"{path} is not a Python file", module=str(path))
    module = importlib.util.module_from_spec(spec)
    # Registered first: pydantic and dataclasses look their module up while it is executed.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise Invalid(f"{path} cannot be imported: {error}", module=str(path)) from error
    return module
