"""The providers of a slot: what it names with `…_UPSTREAM`, each behind an address of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trace_chain.errors import ChainError
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_core.operators.api import OperatorFailed

_UPSTREAM, _URL = "_UPSTREAM", "_URL"
Got = TypeVar("Got")


def providers_of(env: Mapping[str, str]) -> dict[str, str]:
    """From the name of each provider to its address."""
    found = {}
    for variable, name in sorted(env.items()):
        url = env.get(f"{variable.removesuffix(_UPSTREAM)}{_URL}")
        if variable.endswith(_UPSTREAM) and url:
            found[name] = url
    if not found:
        raise OperatorFailed(
            "no provider: give the job a worker pool with a slot that names its upstreams, such as "
            "`env: { A_UPSTREAM: provider_a, B_UPSTREAM: provider_b }`"
        )
    return found


def ask_all(
    providers: Mapping[str, str], ask: Callable[[Rpc, BlockReader], Got], *, timeout: float
) -> dict[str, Got | ChainError]:
    """What each answers, or why it does not; all are asked at the same time."""

    def one(url: str) -> Got | ChainError:
        with Rpc(url, timeout=timeout, connections=1) as rpc:
            try:
                return ask(rpc, BlockReader(rpc))
            except ChainError as error:
                return error

    with ThreadPoolExecutor(len(providers)) as threads:
        return dict(zip(providers, threads.map(one, providers.values()), strict=True))
