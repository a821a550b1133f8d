"""The settings of `decode_logs`; without Spark, for the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from emr_jobs.abi.choice import chosen_events, column_names
from emr_jobs.abi.events import Event
from emr_jobs.configs import COLUMN_PATTERN, NAME_PATTERN, setting

ROWS_COLUMNS = ("event", "standard", "signature", "args")
"""What `layout: rows` has beside the columns that it keeps."""
REASON = "undecodable"


@dataclass(frozen=True)
class DecodeLogsConfig:
    """Logs of contracts as the events that they are."""

    events: tuple[str, ...] = setting(
        (),
        description="`erc20`, `erc721`, `erc1155`, one of theirs as in `erc20.Transfer`, the name "
        "of an event of `abi`, or one as Solidity has it: `event Sent(address indexed to, uint256 "
        "value)`. Without it, all events of `abi`.",
        max_length=200,
    )
    abi: tuple[Mapping[str, Any], ...] = setting(
        (), description="Entries of a JSON ABI; what is no event is passed over.", max_length=2000
    )
    layout: Literal["rows", "columns"] = setting(
        "rows",
        description="`rows`: any number of events, their arguments as JSON in `args`. `columns`: "
        "one event, a typed column for each argument.",
    )
    addresses: tuple[str, ...] = setting(
        (),
        pattern=r"^0x[0-9a-fA-F]{40}$",
        description="Only logs of these contracts.",
        max_length=1000,
    )
    undecodable: Literal["mark", "drop"] = setting(
        "mark",
        description="Of logs whose data is not what their event says: `mark` keeps them, with the "
        "reason in the column `undecodable`; `drop` leaves them out and tells how many they were.",
    )
    prefix: str = setting(
        "",
        pattern=r"^[a-z_]?[a-z0-9_]{0,30}$",
        description="`layout: columns`: put before the name of each argument's column.",
    )
    input: str | None = setting(
        None, description="The input with the logs, where there are several."
    )
    keep: tuple[str, ...] = setting(
        (
            "block_number",
            "block_hash",
            "transaction_hash",
            "transaction_index",
            "log_index",
            "address",
        ),
        pattern=COLUMN_PATTERN,
        description="Columns of the logs that go along.",
    )
    topics: tuple[str, ...] = setting(
        ("topic0", "topic1", "topic2", "topic3"),
        pattern=COLUMN_PATTERN,
        min_length=4,
        max_length=4,
        description="The columns of the topics.",
    )
    data: str = setting("data", pattern=COLUMN_PATTERN, description="The column of the data.")
    address: str = setting(
        "address", pattern=COLUMN_PATTERN, description="The column of the contract."
    )
    cursor: str | None = setting(
        "block_number",
        pattern=COLUMN_PATTERN,
        description="The column of `keep` that places a row in a range; nothing if none does.",
    )
    name: str | None = setting(
        None, pattern=NAME_PATTERN, description="What its objects are called; `events` without it."
    )

    def __post_init__(self) -> None:
        chosen = self.chosen()
        kept = [*self.keep, REASON]
        if len(set(kept)) != len(kept):
            raise ValueError(f"`keep` names a column twice, or `{REASON}`")
        if self.layout == "columns":
            if len(chosen) != 1:
                names = ", ".join(each.signature for each in chosen)
                raise ValueError(
                    f"`layout: columns` is for one event, and {len(chosen)} are chosen: {names}; "
                    "choose one, or write `layout: rows`"
                )
            column_names(chosen[0], self.prefix, kept)
        elif taken := sorted(set(kept) & set(ROWS_COLUMNS)):
            raise ValueError(f"`keep` names {', '.join(taken)}, which `layout: rows` has itself")
        if self.cursor is not None and self.cursor not in self.keep:
            raise ValueError(f"`cursor` is {self.cursor}, which `keep` does not name")

    def chosen(self) -> tuple[Event, ...]:
        return chosen_events(self.events, self.abi)
