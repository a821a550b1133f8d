"""What went wrong, in a form that may leave the job: short, and without secrets."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)

from emr_jobs.task import OperatorFailed
from trace_core.kernel.errors import TraceError
from trace_core.spark.wire import SparkFailure

MESSAGE_MAX = 1000
# The same statement over the same pins fails again.
_ALWAYS = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)
_ALWAYS_JAVA = (
    "ArithmeticException",
    "NumberFormatException",
    "SparkRuntimeException",
    "SparkArithmeticException",
    "SparkNumberFormatException",
    "SparkDateTimeException",
)
_SECRETS = (
    (re.compile(r"(?<=://)[^/\s@]+@"), "***@"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "***"),
    (
        re.compile(r"(?i)\b(X-Amz-[A-Za-z-]+|token|password|secret|authorization)=[^&\s]+"),
        r"\1=***",
    ),
    (re.compile(r"(?i)\bbearer\s+\S+"), "bearer ***"),
)


def failure_of(error: BaseException) -> SparkFailure:
    match error:
        case OperatorFailed():
            return SparkFailure(error.code, _clean(error.message), error.retryable)
        case TraceError():
            return SparkFailure(error.code, _clean(error.message), False)
        case PySparkException():
            retryable = not isinstance(error, _ALWAYS)
            return SparkFailure(type(error).__name__, _clean(_without_sql(_said(error))), retryable)
        case Py4JJavaError():
            name, message = _root_cause(error.java_exception)
            return SparkFailure(name, _clean(_without_sql(message)), name not in _ALWAYS_JAVA)
        case Py4JError():
            return SparkFailure("SparkLost", "the connection to Spark was lost", True)
        case MemoryError():
            return SparkFailure("OutOfMemory", "the driver's Python has no memory left", True)
        case SystemExit():
            return SparkFailure(
                "SystemExit", _clean(f"the operator called sys.exit({error})"), False
            )
        case _:
            return SparkFailure(type(error).__name__, _clean(_text_of(error)), False)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the operator's own __str__ may fail
        return type(error).__name__


def _said(error: PySparkException) -> str:
    lines = str(error).strip().splitlines()
    # Below a blank line, Spark repeats the plan and its own stack.
    return " ".join(line.strip() for line in lines[: next_blank(lines)])


def _without_sql(message: str) -> str:
    """Spark repeats the statement, which may hold anything and belongs into no log, or the place in
    the code, which is of this machine."""
    return re.split("== (?:SQL|DataFrame)", message)[0]


def next_blank(lines: list[str]) -> int:
    return next((at for at, line in enumerate(lines) if not line.strip()), len(lines))


def _root_cause(error: Any) -> tuple[str, str]:
    while error.getCause() is not None:
        error = error.getCause()
    name = str(error.getClass().getSimpleName())
    return name, str(error.getMessage() or name).strip().split("\n\n")[0]


def _clean(message: str) -> str:
    # It may quote what the operator read, and is to be written as JSON.
    message = message.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    for pattern, instead in _SECRETS:
        message = pattern.sub(instead, message)
    return " ".join(message.split())[:MESSAGE_MAX]
