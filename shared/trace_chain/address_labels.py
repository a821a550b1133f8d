"""Names of addresses, from CSV files that people upload."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from trace_chain.backfill_configs import AddressLabelsConfig
from trace_chain.columns import LABELS
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Result, Rows, TaskContext

CSV_MAX = 2 * 1024 * 1024
_SHOWN = 20
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_COLUMNS = tuple(column.name for column in LABELS)
_LENGTHS = {"label": 200, "category": 100, "note": 1000}


class AddressLabels:
    """Each upload is one request.

    With `update_strategy: replace` it takes the place of all labels; with `append` and
    `unique_key: [address]` it adds the addresses that are new.
    """

    def run(self, task: TaskContext[AddressLabelsConfig]) -> Result:
        from trace_chain.tables import table

        replaces = task.job.update_strategy == "replace"
        uploads: list[Rows] = []
        taken: list[int] = []
        for each in sorted(task.requests, key=lambda each: each.number):
            taken.append(each.number)
            try:
                rows = table(LABELS, labels_of(each.request))
            except Invalid as error:
                # Refused when it was made, unless the rules have changed since.
                task.log.error("upload %s is ignored: %s", each.number, error.message)
                continue
            scope = Scope(partition_key="labels" if replaces else f"upload-{each.number}")
            uploads.append(Rows(0, scope, rows, name="labels"))
            if replaces:
                # Scopes of one result do not overlap: the last upload is what stays.
                uploads = uploads[-1:]
        return Result(outputs=uploads, requests_taken=taken)

    def check_request(self, request: Any) -> None:
        """Asked when the upload is made, so that a bad one is refused to whoever makes it."""
        labels_of(request)


def labels_of(request: Any) -> list[tuple[str | None, ...]]:
    """The rows of an upload; raises `Invalid` with the lines that are wrong."""
    if not isinstance(request, dict) or set(request) != {"csv"}:
        raise Invalid('an upload looks like {"csv": "address,label\\n0x…,Exchange\\n"}')
    text = request["csv"]
    # Programs that write spreadsheets begin a file so, an empty one too.
    text = text.lstrip("\ufeff") if isinstance(text, str) else ""
    if not text.strip():
        raise Invalid("the CSV is empty; its first line names the columns: address,label")
    if len(text.encode("utf-8", "replace")) > CSV_MAX:
        raise Invalid(f"the CSV is over {CSV_MAX} bytes: upload it in parts, with `append`")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return _rows(reader)
    except csv.Error as error:
        raise Invalid(f"line {reader.line_num}: {error}") from None


def _rows(reader: Any) -> list[tuple[str | None, ...]]:
    names = [name.strip().lower() for name in next(reader)]
    unknown = sorted(set(names) - set(_COLUMNS))
    if unknown or len(set(names)) != len(names) or not {"address", "label"} <= set(names):
        raise Invalid(
            f"line 1 names the columns: address and label, perhaps category and note; "
            f"it says {','.join(names)[:200]}"
        )
    problems: list[str] = []
    seen: dict[str, int] = {}
    rows: list[tuple[str | None, ...]] = []
    for values in reader:
        line = reader.line_num
        if not any(value.strip() for value in values):
            continue
        if len(values) != len(names):
            problems.append(f"line {line}: {len(values)} values for {len(names)} columns")
            continue
        fields = dict(zip(names, (value.strip() for value in values), strict=True))
        wrong = _wrong(fields)
        address = fields["address"].lower()
        if wrong is None and address in seen:
            wrong = f"{address} is on line {seen[address]} already"
        if wrong is not None:
            problems.append(f"line {line}: {wrong}")
            continue
        seen[address] = line
        rows.append(tuple({**fields, "address": address}.get(name) or None for name in _COLUMNS))
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise Invalid("; ".join(problems[:_SHOWN]) + more)
    return rows


def _wrong(fields: dict[str, str]) -> str | None:
    address = fields["address"]
    if not _ADDRESS.fullmatch(address):
        return f"{address[:60]!r} is no address: 0x and 40 hex digits"
    digits = address[2:]
    # All of one case says nothing; mixed case is a checksum (EIP-55), and must be right.
    if digits not in (digits.lower(), digits.upper()) and address != checksummed(address):
        return f"{address} has a wrong checksum: a digit may be mistyped"
    if not fields["label"]:
        return "the label is empty"
    for name, most in _LENGTHS.items():
        if len(fields.get(name, "")) > most:
            return f"{name} has over {most} characters"
    if any("\x00" in value for value in fields.values()):
        return "there is a NUL in it"
    if any("\ud800" <= sign <= "\udfff" for value in fields.values() for sign in value):
        # JSON may have it, and nothing that is stored can.
        return "there is half a sign in it, a lone surrogate"
    return None


def checksummed(address: str) -> str:
    """With the case of its letters as EIP-55 says."""
    from trace_chain.encoding import keccak

    digits = address[2:].lower()
    digest = keccak(digits.encode()).hex()
    cased = (d.upper() if int(h, 16) >= 8 else d for d, h in zip(digits, digest, strict=False))
    return "0x" + "".join(cased)
