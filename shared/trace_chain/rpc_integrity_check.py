"""Asks several providers about the same blocks, and names those that tell something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trace_chain.backfill_configs import RpcIntegrityCheckConfig
from trace_chain.columns import PROVIDER_CHECKS
from trace_chain.errors import ChainError, Lagging, Malformed, NodeAway
from trace_chain.providers import ask_all, providers_of
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import table
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import OperatorFailed, Result, Rows, TaskContext


@dataclass(frozen=True)
class Account:
    """What a provider tells of a block."""

    block_hash: str
    receipts_root: str
    log_count: int


class RpcIntegrityCheck:
    """One row for each block and provider; of a long range, blocks at even distances."""

    def run(self, task: TaskContext[RpcIntegrityCheckConfig]) -> Result:
        config, providers = task.config, providers_of(task.env)
        if len(providers) < config.quorum:
            raise OperatorFailed(
                f"{len(providers)} providers, and a quorum of {config.quorum}: name more upstreams "
                "in the slot"
            )
        scope, numbers = self._wanted(task, providers)
        told = ask_all(providers, _accounts_of(numbers), timeout=config.timeout_seconds)
        rows = []
        for at, number in enumerate(numbers):
            accounts = {
                name: each if isinstance(each, ChainError) else each[at]
                for name, each in told.items()
            }
            rows += judged(number, accounts, config.quorum, task.now)
        for row in rows:
            if row[5] in ("differs", "no_quorum"):
                task.log.warning("block %s: provider %s: %s %s", row[0], row[1], row[5], row[6])
        checks = table(PROVIDER_CHECKS, rows)
        return Result(
            outputs=[Rows(0, scope, checks, cursor_column="block_number", name="checks")],
            resume_after=timedelta(seconds=config.every_seconds),
        )

    def _wanted(
        self, task: TaskContext[RpcIntegrityCheckConfig], providers: Mapping[str, str]
    ) -> tuple[Scope, list[int]]:
        if task.trigger is None:
            # As a source: a block that all who answer should have.
            heads = ask_all(providers, _latest, timeout=task.config.timeout_seconds)
            known = sorted(each for each in heads.values() if isinstance(each, int))
            if len(known) < task.config.quorum:
                raise NodeAway(f"{len(known)} of {len(providers)} providers answer")
            number = max(0, known[-task.config.quorum] - task.config.depth)
            return Scope(cursor=number), [number]
        scope = task.trigger.scope
        if scope.cursor is not None:
            return scope, [scope.cursor]
        if scope.range is None:
            raise OperatorFailed("needs an event with a block or a range of blocks")
        start, end = scope.range
        step = max(1, -(-(end - start + 1) // task.config.max_blocks))
        return scope, list(range(start, end + 1, step))


def judged(
    number: int, accounts: Mapping[str, Account | ChainError], quorum: int, now: datetime
) -> list[tuple[Any, ...]]:
    """The rows of one block: who agrees, who differs, and whether enough agree at all."""
    said = Counter(each for each in accounts.values() if isinstance(each, Account))
    most = said.most_common(2)
    agreed = most[0][0] if most and most[0][1] >= quorum else None
    if len(most) == 2 and most[0][1] == most[1][1]:
        # As many on either side: nobody is in the minority.
        agreed = None
    return [(number, name, *_row(each, agreed, quorum, len(accounts)), now)
            for name, each in accounts.items()]  # fmt: skip


def _row(
    told: Account | ChainError, agreed: Account | None, quorum: int, asked: int
) -> tuple[Any, ...]:
    if isinstance(told, ChainError):
        return None, None, None, "away", told.message[:500]
    seen = (told.block_hash, told.receipts_root, told.log_count)
    if agreed is None:
        return (*seen, "no_quorum", f"less than {quorum} of {asked} providers agree")
    if told == agreed:
        return (*seen, "agrees", None)
    named = {
        "block hash": told.block_hash != agreed.block_hash,
        "receipts root": told.receipts_root != agreed.receipts_root,
        f"log count {told.log_count}, not {agreed.log_count}": told.log_count != agreed.log_count,
    }
    reason = ", ".join(each for each, is_so in named.items() if is_so)
    return (*seen, "differs", f"another {reason}")


def _latest(rpc: Rpc, reader: BlockReader) -> int:
    return reader.heads().latest.number


def _accounts_of(
    numbers: Sequence[int],
) -> Callable[[Rpc, BlockReader], list[Account | ChainError]]:
    def ask(rpc: Rpc, reader: BlockReader) -> list[Account | ChainError]:
        found: list[Account | ChainError] = []
        for number in numbers:
            at = hex(number)
            logs = {"fromBlock": at, "toBlock": at}
            try:
                block, told = rpc.batch(
                    [("eth_getBlockByNumber", (at, False)), ("eth_getLogs", (logs,))]
                )
                found.append(_account(number, block, told))
            except (Lagging, Malformed) as error:
                found.append(error)
        return found

    return ask


def _account(number: int, block: Any, logs: Any) -> Account:
    if block is None:
        raise Lagging(f"it does not have block {number}")
    try:
        return Account(block["hash"].lower(), block["receiptsRoot"].lower(), len(logs))
    except (KeyError, TypeError, AttributeError) as error:
        raise Malformed(f"block {number} has another form") from error
