"""The chain moves while a slice reads it, and the follower dies at every point: nobody can tell
from the rows."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.chain.follow_world import FollowWorld, clean_build
from tests.chain.meddling_proxy import MeddlingProxy
from trace_chain.node.anvil import Anvil

POINTS = (
    "advance_fence:after_commit",
    "data_commit:begin",
    "data_commit:output_written",
    "data_commit:before_commit",
    "data_commit:after_commit",
)


@pytest.fixture
def proxy(anvil: Anvil) -> Iterator[MeddlingProxy]:
    made = MeddlingProxy(anvil.port)
    yield made
    made.close()


@pytest.fixture
def world(
    state_dsn: str, data_dsn: str, tmp_path: Path, proxy: MeddlingProxy
) -> Iterator[FollowWorld]:
    made = FollowWorld(state_dsn, data_dsn, tmp_path, proxy.url)
    yield made
    made.close()


def test_a_reorg_between_two_requests_of_a_slice_never_mixes_forks(
    world: FollowWorld, proxy: MeddlingProxy, anvil: Anvil
) -> None:
    anvil.traffic(20, transactions=1, transfers=2)
    world.deploy(batch_blocks=2, connections=1, max_blocks=8)
    world.follow()
    happened = []
    for at in (1, 2, 3, 4, 5, 6, 8):
        if at % 3 == 0:
            anvil.random_reorg(6)  # the slice begins with a rewrite, and the chain moves again
        anvil.traffic(7, transactions=1, transfers=3)

        def meddle(number: int, at: int = at) -> None:
            if number == at:
                happened.append(at)
                anvil.random_reorg(4 + at)

        proxy.before(meddle)
        world.slice()
        world.assert_one_chain()
        proxy.before(None)
        world.follow()
        assert world.hashes() == clean_build(anvil.url), f"a reorg before request {at}"
    assert len(happened) > 4, "the slices are shorter than the test believes"


def test_a_chain_that_never_rests_is_given_up_for_this_slice(
    world: FollowWorld, proxy: MeddlingProxy, anvil: Anvil
) -> None:
    anvil.traffic(20, transactions=1, transfers=2)
    world.deploy(batch_blocks=2, connections=1)
    world.follow()
    before = world.hashes()
    anvil.random_reorg(10)
    proxy.before(lambda _: anvil.random_reorg(10))
    said = world.slice()
    assert (said.get("status"), said.get("error_code")) == ("Failed", "ForkMoved")
    assert world.hashes() == before, "nothing is taken away before its replacement is read"
    proxy.before(None)
    world.expire()
    world.follow()
    assert world.hashes() == clean_build(anvil.url)


def _die_at(state: str, data: str, folder: str, url: str, point: str) -> None:
    def die(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    # Without a point somebody outside kills it.
    FollowWorld(state, data, Path(folder), url, crash=die).slice()


def _kill_at(process: BaseProcess, request: int, number: int) -> None:
    if number == request:
        process.kill()


@pytest.mark.parametrize("rewrite", [False, True], ids=["new blocks", "a rewrite"])
def test_kill_9_at_any_point_leaves_no_gap_and_no_overlap(
    world: FollowWorld,
    proxy: MeddlingProxy,
    anvil: Anvil,
    state_dsn: str,
    data_dsn: str,
    tmp_path: Path,
    rewrite: bool,
) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chain.follow_world"])
    anvil.traffic(15, transactions=1, transfers=2)
    world.deploy(batch_blocks=2, connections=1)
    world.follow()
    for at, point in enumerate((*POINTS, "in the middle of reading")):
        if rewrite:
            anvil.random_reorg(9)
        anvil.traffic(5, transactions=1, transfers=2)
        folder = tmp_path / str(at)
        folder.mkdir()
        arguments = (state_dsn, data_dsn, str(folder), proxy.url, point)
        process = context.Process(target=_die_at, args=arguments)
        process.start()
        if point not in POINTS:
            proxy.before(partial(_kill_at, process, 4))
        process.join(60)
        proxy.before(None)
        assert process.exitcode == -signal.SIGKILL, point
        world.assert_one_chain()
        world.expire()
        world.follow()
        assert world.hashes() == clean_build(anvil.url), point
        spans = [(c.range_start, c.range_end) for c in world.commits() if c.replaced_at is None]
        assert spans[0][0] == 0, point
