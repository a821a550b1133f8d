"""Logs as the events that they are: exact values in typed columns, or as JSON.

What has a fixed size is decoded by Spark's own expressions; what has none, in Python workers. Data
that is not what the event's signature says is told about and never fails the task.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as S

from emr_jobs.abi.choice import argument_names, column_names, column_type, is_small
from emr_jobs.abi.decode import DataDecoder
from emr_jobs.abi.events import Argument, Event
from emr_jobs.columns import typed
from emr_jobs.operators.decode_logs_config import REASON, DecodeLogsConfig
from emr_jobs.operators.inputs import row_input
from emr_jobs.operators.uint256 import Number, with_decimals
from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask

_EVENT, _DATA, _SIZE, _TAIL = "__event", "__data", "__size", "__tail"
_TAIL_TYPE = S.StructType(
    [
        S.StructField("reason", S.StringType()),
        S.StructField("values", S.ArrayType(S.StringType())),
    ]
)


def run(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(DecodeLogsConfig)
    logs = io.read(row_input(task, config.input))
    needed = {*config.keep, *config.topics, config.data, config.address}
    if unknown := sorted(needed - set(logs.columns)):
        raise OperatorFailed(
            f"the logs have no column {', '.join(unknown)}; they have: {', '.join(logs.columns)}",
            code="ConfigInvalid",
        )
    counted = Observation()
    bad = F.count(F.when(F.col(REASON).isNotNull(), True)).alias("bad")
    rows = decoded_logs(logs, config).observe(counted, F.count(F.lit(1)).alias("all"), bad)
    if config.undecodable == "drop":
        rows = rows.where(F.col(REASON).isNull()).drop(REASON)
    io.write(0, rows, name=config.name or "events", cursor_column=config.cursor)
    found = counted.get
    print(f"{found['all']} logs of these events, {found['bad']} of them undecodable")


def decoded_logs(logs: DataFrame, config: DecodeLogsConfig) -> DataFrame:
    """A row for each log of the chosen events, with the reason where it is undecodable."""
    events = config.chosen()
    found = []
    # Only logs that need it go through Python.
    for group in ([e for e in events if e.is_static], [e for e in events if not e.is_static]):
        if group:
            found.append(_Decoder(config, group).rows(logs))
    return functools.reduce(DataFrame.unionByName, found)


@dataclass(frozen=True)
class _Value:
    """An argument as columns of the frame."""

    text: Column
    json: Column
    bad: Column | None
    """True where it is not what its type says."""


class _Decoder:
    def __init__(self, config: DecodeLogsConfig, events: Sequence[Event]) -> None:
        self._config, self._events = config, events
        self._static = all(each.is_static for each in events)

    def rows(self, logs: DataFrame) -> DataFrame:
        config = self._config
        frame = logs.where(self._wanted()).select(
            *config.keep,
            self._which().alias(_EVENT),
            *self._words(),
        )
        frame = with_decimals(frame, self._numbers())
        if not self._static:
            frame = frame.select("*", self._tail().alias(_TAIL))
        return self._columns(frame) if config.layout == "columns" else self._rows(frame)

    def _wanted(self) -> Column:
        """In comparisons that the scan can leave out row groups by."""
        config = self._config
        wanted = F.col(config.topics[0]).isin(*sorted({each.topic0 for each in self._events}))
        if config.addresses:
            addresses = sorted({each.lower() for each in config.addresses})
            wanted &= F.col(config.address).isin(*addresses)
        return wanted & functools.reduce(Column.__or__, [self._is(each) for each in self._events])

    def _is(self, event: Event) -> Column:
        """By signature and number of topics: an NFT's Transfer has one more than a token's."""
        topics = self._config.topics
        found = F.col(topics[0]) == event.topic0
        count = len(event.indexed)
        if count:
            found &= F.col(topics[count]).isNotNull()
        if count + 1 < len(topics):
            found &= F.col(topics[count + 1]).isNull()
        return found

    def _which(self) -> Column:
        """The place of its event in the list."""
        found = F.lit(None).cast("int")
        for at, each in reversed(list(enumerate(self._events))):
            found = F.when(self._is(each), F.lit(at)).otherwise(found)
        return found

    def _words(self) -> list[Column]:
        """Hex digits of topics and of the data's first words; NULL where there is no such word."""
        topics = max(len(each.indexed) for each in self._events)
        columns = [
            _hex_digits(F.col(self._config.topics[at]), 66).alias(f"__t{at}")
            for at in range(1, topics + 1)
        ]
        data = F.coalesce(F.col(self._config.data), F.lit("0x"))
        if not self._static:
            return [*columns, data.alias(_DATA)]
        whole = _hex_digits(data)
        words = max(len(each.in_data) for each in self._events)
        return [
            *columns,
            F.when(whole.isNotNull(), F.length(data) / 2 - 1).cast("int").alias(_SIZE),
            *(
                F.when(
                    whole.isNotNull() & (F.length(data) >= 66 + 64 * at),
                    F.lower(F.substring(data, 3 + 64 * at, 64)),
                ).alias(f"__w{at}")
                for at in range(words)
            ),
        ]

    def _numbers(self) -> dict[str, Number]:
        """Words that some event takes for a number of more than 64 bits."""
        found = {}
        for event in self._events:
            for argument, word in _words_of(event):
                kind = argument.type
                if word is not None and kind.kind in ("uint", "int") and not is_small(kind):
                    signed = kind.kind == "int"
                    found[_number_of(word, signed)] = Number(word, signed)
        return found

    def _tail(self) -> Column:
        """All arguments in the data, by Python."""
        types = [[each.type for each in event.in_data] for event in self._events]
        decoder = DataDecoder(types, json=self._config.layout == "rows")
        return F.udf(decoder.__call__, _TAIL_TYPE)(F.col(_EVENT), F.col(_DATA))

    def _values(self, event: Event) -> list[_Value]:
        found, in_data = [], 0
        for argument, word in _words_of(event):
            if word is not None:
                found.append(_word_value(argument, word))
                continue
            value = F.col(_TAIL)["values"][in_data]
            in_data += 1
            found.append(_Value(value, value, None))
        return found

    def _reason(self, event: Event, values: Sequence[_Value]) -> Column:
        reasons = []
        for at in range(1, len(event.indexed) + 1):
            told = F.lit(f"{self._config.topics[at]} is no word of 32 bytes")
            reasons.append(F.when(F.col(f"__t{at}").isNull(), told))
        if self._static:
            needed = 32 * len(event.in_data)
            short = F.concat(
                F.col(_SIZE).cast("string"), F.lit(f" bytes of data, and {needed} are needed")
            )
            reasons.append(F.when(F.col(_SIZE).isNull(), F.lit("the data is no hex text")))
            reasons.append(F.when(F.col(_SIZE) < needed, short))
        else:
            reasons.append(F.col(_TAIL)["reason"])
        names = argument_names(event)
        for name, argument, value in zip(names, event.arguments, values, strict=True):
            if value.bad is not None:
                told = F.lit(f"{name} is no {argument.type.text}")
                reasons.append(F.when(value.bad, told))
        return F.coalesce(*reasons, F.lit(None).cast("string"))

    def _columns(self, frame: DataFrame) -> DataFrame:
        """One event, a column for each argument."""
        config, [event] = self._config, self._events
        values = self._values(event)
        frame = frame.select("*", self._reason(event, values).alias(REASON))
        names = column_names(event, config.prefix, [*config.keep, REASON])
        columns = []
        for name, argument, value in zip(names, event.arguments, values, strict=True):
            kind = column_type(argument)
            text = F.when(F.col(REASON).isNull(), value.text)
            # Of a bad row nothing is cast, and a good one's text is a number.
            fitting = text.cast(kind) if kind in ("bigint", "boolean") else text
            columns.append(typed(fitting, name, kind))
        return frame.select(*config.keep, *columns, REASON)

    def _rows(self, frame: DataFrame) -> DataFrame:
        """Any events, their arguments as JSON."""
        values = [self._values(each) for each in self._events]
        pairs = list(zip(self._events, values, strict=True))
        reason = _by_event([self._reason(event, found) for event, found in pairs])
        frame = frame.select("*", reason.alias(REASON))
        arguments = _by_event([_arguments(event, found) for event, found in pairs])
        return frame.select(
            *self._config.keep,
            _by_event([F.lit(each.name) for each in self._events]).alias("event"),
            _by_event([F.lit(each.standard) for each in self._events])
            .cast("string")
            .alias("standard"),
            _by_event([F.lit(each.signature) for each in self._events]).alias("signature"),
            typed(F.when(F.col(REASON).isNull(), arguments), "args", "jsonb"),
            REASON,
        )


def _words_of(event: Event) -> list[tuple[Argument, str | None]]:
    """Each argument with the column of its word; none for those in data that Python decodes."""
    found: list[tuple[Argument, str | None]] = []
    topic, word = 1, 0
    for each in event.arguments:
        if each.indexed:
            found.append((each, f"__t{topic}"))
            topic += 1
        else:
            found.append((each, f"__w{word}" if event.is_static else None))
            word += 1
    return found


def _number_of(word: str, signed: bool) -> str:
    return f"{word}_{'int' if signed else 'uint'}"


def _hex_digits(text: Column, length: int | None = None) -> Column:
    """Lower-case digits behind `0x`; NULL for what is no such text."""
    digits = F.substring(text, 3, 2**31 - 1)
    size = F.length(text)
    right = (size == length) if length else (size % 2 == 0)
    # `unhex` gives NULL for what is no hex text; it takes an odd number of digits, though.
    return F.when(text.startswith("0x") & right & F.unhex(digits).isNotNull(), F.lower(digits))


def _word_value(argument: Argument, word: str) -> _Value:
    kind, digits = argument.type, F.col(word)
    if argument.is_hash:
        return _texts(F.concat(F.lit("0x"), digits), None)
    match kind.kind:
        case "uint" | "int":
            return _number_value(argument, word)
        case "address":
            text = F.concat(F.lit("0x"), F.substring(digits, 25, 40))
            return _texts(text, ~digits.startswith("0" * 24))
        case "bool":
            text = F.when(digits.endswith("1"), F.lit("true")).otherwise(F.lit("false"))
            return _Value(text, text, ~digits.isin("0" * 64, "0" * 63 + "1"))
        case _:
            text = F.concat(F.lit("0x"), F.substring(digits, 1, 2 * kind.size))
            padding = 64 - 2 * kind.size
            return _texts(text, ~digits.endswith("0" * padding) if padding else None)


def _texts(text: Column, bad: Column | None) -> _Value:
    return _Value(text, F.concat(F.lit('"'), text, F.lit('"')), bad)


def _number_value(argument: Argument, word: str) -> _Value:
    kind, digits = argument.type, F.col(word)
    signed = kind.kind == "int"
    if is_small(kind):
        # Its last 64 bits, with their sign.
        text = F.conv(F.substring(digits, 49, 16), 16, -10)
    else:
        text = F.col(_number_of(word, signed))
    above = 64 - kind.size // 4
    if not above:
        return _texts(text, None)
    if not signed:
        return _texts(text, ~digits.startswith("0" * above))
    sign = F.substring(digits, above + 1, 1)
    positive = digits.startswith("0" * above) & (sign < "8")
    negative = digits.startswith("f" * above) & (sign >= "8")
    return _texts(text, ~(positive | negative))


def _by_event(columns: Sequence[Column]) -> Column:
    """The column of the row's own event."""
    if len(columns) == 1:
        return columns[0]
    found = columns[-1]
    for at in range(len(columns) - 2, -1, -1):
        found = F.when(F.col(_EVENT) == at, columns[at]).otherwise(found)
    return found


def _arguments(event: Event, values: Sequence[_Value]) -> Column:
    """One object, its keys in the order in which the platform spells them."""
    pieces: Mapping[str, Column] = {
        name: value.json for name, value in zip(argument_names(event), values, strict=True)
    }
    parts: list[Column] = []
    for at, name in enumerate(sorted(pieces)):
        lead = f"{',' if at else '{'}{json.dumps(name, ensure_ascii=False)}:"
        parts += [F.lit(lead), pieces[name]]
    return F.concat(*parts, F.lit("}")) if parts else F.lit("{}")
