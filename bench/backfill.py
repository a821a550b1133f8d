"""`python -m bench.backfill`: a checked backfill beside bare Cryo, the gateway beside none.

Everything runs against one anvil on this machine, in one process, in turns: the ratios mean more
than the figures.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from trace_chain.backfill_configs import CryoIngestConfig
from trace_chain.cryo_files import freeze
from trace_chain.cryo_ingest import CryoIngest
from trace_chain.node.anvil import CHAIN_ID, Anvil
from trace_core.egress.gateway import EgressGateway
from trace_core.egress.model import Upstream
from trace_core.operators.api import task_context

DATASETS = ("blocks", "transactions", "logs")
_ID = str(UUID(int=1))


def measure(blocks: int, rounds: int, requests: int) -> dict[str, float]:
    """Medians: blocks in a second, and microseconds of one request."""
    with Anvil() as node:
        node.traffic(blocks, transactions=2, transfers=5)
        gateway = EgressGateway({"node": Upstream(url=node.url, allow_private=True)})
        with gateway.opened({"RPC_UPSTREAM": "node"}, 3600) as opened:
            through = opened.env["RPC_URL"]
            ways: dict[str, Callable[[], object]] = {
                "bare Cryo": lambda: _bare(node.url, blocks),
                "bare Cryo through the gateway": lambda: _bare(through, blocks),
                "cryo_ingest, receipts": lambda: _ingest(through, blocks, "receipts"),
                "cryo_ingest, bloom": lambda: _ingest(through, blocks, "bloom"),
            }
            found = {
                f"{name}: blocks/s": blocks / seconds
                for name, seconds in _in_turns(ways, rounds).items()
            }
            direct = _in_turns(
                {
                    "one request": lambda: _requests(node.url, requests),
                    "one request through the gateway": lambda: _requests(through, requests),
                },
                rounds,
            )
        gateway.close()
    found |= {f"{name}: µs": seconds / requests * 1e6 for name, seconds in direct.items()}
    bare = found["bare Cryo: blocks/s"]
    for name in ("receipts", "bloom"):
        found[f"cryo_ingest, {name} / bare Cryo"] = found[f"cryo_ingest, {name}: blocks/s"] / bare
    found["gateway / direct"] = direct["one request through the gateway"] / direct["one request"]
    return found


def _in_turns(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each; taking turns, all meet the same noise."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            started_at = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started_at)
    return {name: statistics.median(each) for name, each in times.items()}


def _bare(url: str, blocks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for dataset in DATASETS:
            freeze(dataset, url, 1, blocks, Path(folder, dataset), requests=16, chunk=1000)


def _ingest(url: str, blocks: int, verify: str) -> None:
    config = CryoIngestConfig.model_validate({"chain_id": CHAIN_ID, "verify": verify}, strict=False)
    output = {"dataset_uuid": _ID, "dataset_version": _ID, "backend": "s3", "staging_prefix": "x/"}
    payload = {
        "org_id": _ID, "task_id": _ID, "attempt": 1, "lease_sequence": 1,
        "operator": "cryo_ingest", "trigger": {"start": 1, "end": blocks},
        "job": {
            "job_id": _ID, "dag_name": "bench", "dag_version": 1, "name": "backfill",
            "activation": "reactive",
        },
        "outputs": [{"output_index": index, **output} for index in range(len(DATASETS))],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        context = task_context(
            payload, config, now=datetime.now(UTC), env={"RPC_URL": url}, scratch=Path(folder)
        )
        result = CryoIngest().run(context)
        assert len(result.outputs) == len(DATASETS)


def _requests(url: str, count: int) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber",
                       "params": ["0x5", True]})  # fmt: skip
    for _ in range(count):
        connection.request("POST", parts.path or "/", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
    connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.backfill", description=__doc__)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    found = measure(given.blocks, given.rounds, given.requests)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:48} {value:12,.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
