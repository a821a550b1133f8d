"""The node does what tests, demo and bench ask of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from trace_chain.node import install
from trace_chain.node.anvil import CHAIN_ID, Anvil
from trace_chain.node.traffic import TRANSFER
from trace_chain.rpc import Rpc


def hashes(node: Anvil, start: int, end: int) -> list[str]:
    calls = [("eth_getBlockByNumber", (hex(at), False)) for at in range(start, end + 1)]
    return [block["hash"] if block else "" for block in node.rpc.batch(calls)]


def logs(node: Anvil, number: int) -> list[dict[str, Any]]:
    asked = {"fromBlock": hex(number), "toBlock": hex(number)}
    return list(node.rpc.call("eth_getLogs", asked))


def test_a_block_has_the_logs_that_were_asked_for(anvil: Anvil) -> None:
    number = anvil.block(transfers=300, payments=2, reverts=1)
    assert number == 2
    found = logs(anvil, number)
    assert len(found) == 300
    assert {each["topics"][0] for each in found} == {TRANSFER}
    receipts = anvil.rpc.call("eth_getBlockReceipts", hex(number))
    assert [int(each["status"], 16) for each in receipts] == [1, 1, 1, 0]
    assert int(anvil.rpc.call("eth_chainId"), 16) == CHAIN_ID


@pytest.mark.parametrize("depth", [1, 5, 64])
def test_a_reorg_replaces_the_last_blocks_and_no_other(anvil: Anvil, depth: int) -> None:
    head = anvil.mine(100)
    before = hashes(anvil, 0, head)
    anvil.reorg(depth, {0: 2, depth - 1: 3})
    after = hashes(anvil, 0, head)
    assert anvil.head == head
    same = len(before) - depth
    assert before[:same] == after[:same]
    assert not set(before[same:]) & set(after[same:])
    assert len(logs(anvil, head)) == 3


def test_a_fork_may_be_shorter_and_the_token_still_answers(anvil: Anvil) -> None:
    head = anvil.mine(20)
    before = hashes(anvil, 0, head)
    assert anvil.shorter_reorg(10, 4) == head - 6
    assert hashes(anvil, 0, head - 10) == before[: head - 9]
    anvil.random_reorg(12)
    assert len(logs(anvil, anvil.block(transfers=7))) == 7


def test_the_program_ends_with_the_node() -> None:
    with Anvil() as node:
        process = node._process
        assert process.poll() is None
    assert process.poll() is not None


def test_what_cannot_be_installed_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install.platform, "machine", lambda: "riscv64")
    with pytest.raises(install.NoAnvil, match="TRACE_ANVIL"):
        install.anvil_program(tmp_path)
    program = tmp_path / "anvil"
    program.touch(mode=0o755)
    monkeypatch.setenv("TRACE_ANVIL", str(program))
    assert install.anvil_program(tmp_path) == program
    monkeypatch.setenv("TRACE_ANVIL", "/somewhere/anvil")
    with pytest.raises(RuntimeError, match="/somewhere/anvil"):
        install.anvil_program(tmp_path)
    monkeypatch.setenv("TRACE_ANVIL", "none")
    with pytest.raises(install.NoAnvil):
        install.anvil_program(tmp_path)


def test_npm_is_found_without_one_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.shutil, "which", lambda _: None)
    command = install.npm()
    assert len(command) == 2
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip()


def test_a_client_reads_the_node_in_batches(anvil: Anvil) -> None:
    anvil.mine(50)
    with Rpc(anvil.url) as rpc:
        chunks = [range(at, at + 10) for at in range(0, 50, 10)]

        def read(chunk: range) -> list[int]:
            blocks = rpc.batch([("eth_getBlockByNumber", (hex(at), True)) for at in chunk])
            return [int(block["number"], 16) for block in blocks]

        found = [number for read_ in rpc.ahead(read, chunks) for number in read_]
        assert found == list(range(50))
