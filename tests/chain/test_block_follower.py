"""The follower on a real node: every chain it may meet ends as the rows of a clean build."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chain.follow_world import FollowWorld, clean_build
from tests.chain.rpc_faults import faulty
from trace_chain.node.anvil import Anvil

Make = Callable[..., FollowWorld]


@pytest.fixture
def world(state_dsn: str, data_dsn: str, tmp_path: Path, anvil: Anvil) -> Iterator[FollowWorld]:
    made = FollowWorld(state_dsn, data_dsn, tmp_path, anvil.url)
    yield made
    made.close()


def same_as_clean(world: FollowWorld, start: int = 0) -> None:
    assert world.hashes() == clean_build(world.url, start)


def test_it_follows_from_the_first_block_in_commits_of_bounded_size(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.traffic(25)
    anvil.mine(20)
    world.deploy(max_blocks=10)
    assert world.follow() == 5
    assert [(c.range_start, c.range_end) for c in world.commits()] == [
        (0, 9), (10, 19), (20, 29), (30, 39), (40, 46),
    ]  # fmt: skip
    same_as_clean(world)
    anvil.block(transfers=3)
    assert world.follow() == 1
    same_as_clean(world)


@pytest.mark.parametrize("depth", [1, 5, 64])
def test_a_reorg_is_rewritten_in_one_commit_that_ends_as_a_clean_build(
    world: FollowWorld, anvil: Anvil, depth: int
) -> None:
    anvil.traffic(10, transfers=3)
    head = anvil.mine(70)
    anvil.block(transfers=4)
    world.deploy()
    world.follow()
    before, count = world.rows(0), len(world.commits())
    anvil.random_reorg(depth)
    world.slice()
    new = world.commits()[count:]
    first = head + 2 - depth
    assert [(c.range_start, c.range_end) for c in new] == [(first, head + 1)]
    same_as_clean(world)
    # A reader of the pin before it still sees the chain of before.
    assert sorted(world.rows(0, at=count)) == sorted(before)
    assert world.follow() == 0


def test_a_shorter_fork_leaves_no_row_of_the_longer_one(world: FollowWorld, anvil: Anvil) -> None:
    anvil.traffic(30)
    world.deploy()
    world.follow()
    assert anvil.shorter_reorg(20, 4) == 15
    world.slice()
    assert max(row[0] for row in world.rows(0)) == 15
    same_as_clean(world)
    assert world.commits()[-1].range_end == 31
    anvil.traffic(3)
    world.follow()
    same_as_clean(world)


def test_a_reorg_of_all_that_was_followed_begins_anew(world: FollowWorld, anvil: Anvil) -> None:
    anvil.mine(20)
    world.deploy(start_block=15)
    world.follow()
    anvil.random_reorg(12)
    anvil.block(transfers=2)
    world.follow()
    same_as_clean(world, start=15)


def test_a_reorg_deeper_than_what_is_kept_stops_the_job_and_says_why(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.mine(150)
    world.deploy(max_depth=64)
    world.follow()
    before = world.hashes()
    anvil.reorg(80)
    said = world.slice()
    assert (said["status"], said["error_code"]) == ("Failed", "ReorgTooDeep")
    assert "`max_depth`" in said["error_message"]
    assert world.hashes() == before


def test_after_a_shorter_fork_the_next_reorg_may_be_as_deep_as_any(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.mine(150)
    world.deploy(max_depth=64)
    world.follow()
    anvil.shorter_reorg(60, 1)
    world.follow()
    anvil.mine(3)
    world.follow()
    anvil.random_reorg(60)
    anvil.mine(1)
    world.follow()
    same_as_clean(world)


def test_a_node_that_is_behind_changes_nothing(world: FollowWorld, anvil: Anvil) -> None:
    anvil.traffic(10)
    world.deploy()
    world.follow()
    before, commits = world.hashes(), len(world.commits())
    anvil.rollback(3)
    assert world.follow() == 0
    assert (world.hashes(), len(world.commits())) == (before, commits)
    anvil.traffic(4)
    world.follow()
    same_as_clean(world)


def test_a_block_that_one_machine_of_a_provider_lacks_was_not_replaced(
    world: FollowWorld, anvil: Anvil
) -> None:
    last = anvil.traffic(10)
    world.deploy()
    world.follow()
    count = len(world.commits())
    with faulty(anvil.url, lacks_headers_from=last - 1) as provider:
        world.url = provider.url
        assert world.follow() == 0
        head = anvil.traffic(3)
        world.follow()
    world.url = anvil.url
    assert [(c.range_start, c.range_end) for c in world.commits()[count:]] == [(last + 1, head)]
    same_as_clean(world)


def test_a_machine_of_a_provider_that_is_far_behind_is_no_deep_reorg(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.mine(150)
    world.deploy(max_depth=64)
    world.follow()
    anvil.mine(1)
    with faulty(anvil.url, lacks_headers_from=20) as provider:
        world.url = provider.url
        said = world.slice()
    assert (said["status"], said["error_code"]) == ("Failed", "Lagging")
    assert said["egress"]["fault"] == "lagging"


def test_a_block_that_is_not_there_yet_is_waited_for_in_the_same_slice(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.traffic(3)
    world.deploy(wait_seconds=60.0, poll_seconds=0.01, batch_blocks=200)
    world.slice()
    head = anvil.traffic(1)
    with faulty(anvil.url, lacks_until=3) as provider:
        world.url = provider.url
        said = world.slice()
    assert said["status"] == "Yielded", said
    assert world.cursor()["next"] == head + 1
    world.url = anvil.url
    same_as_clean(world)


def test_a_node_that_went_away_is_followed_again_when_it_is_back(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.traffic(5)
    world.deploy()
    world.follow()
    world.url = "http://127.0.0.1:9/"
    said = world.slice()
    assert (said["status"], said["error_code"], said["retryable"]) == ("Failed", "NodeAway", True)
    anvil.traffic(5)
    world.url = anvil.url
    world.follow()
    same_as_clean(world)


def test_a_node_of_another_chain_is_refused(world: FollowWorld, anvil: Anvil) -> None:
    world.deploy(chain_id=1)
    said = world.slice()
    assert (said["status"], said["error_code"]) == ("Failed", "WrongChain")
    assert "31337" in said["error_message"]
    assert world.commits() == []


def test_it_stays_behind_by_the_confirmations_that_are_asked_for(
    world: FollowWorld, anvil: Anvil
) -> None:
    head = anvil.mine(20)
    world.deploy(confirmations=6)
    world.follow()
    assert max(row[0] for row in world.rows(0)) == head - 6
    anvil.reorg(5)
    assert world.follow() == 0
    anvil.reorg(9)
    assert world.follow() == 1
    assert world.hashes()["blocks"].startswith(f"{head - 5}:")


def test_a_commit_holds_no_more_rows_than_it_should(world: FollowWorld, anvil: Anvil) -> None:
    for _ in range(6):
        anvil.block(transfers=50)
    world.deploy(max_rows=100, batch_blocks=2)
    world.follow()
    assert [(c.range_start, c.range_end) for c in world.commits()] == [(0, 3), (4, 5), (6, 7)]
    same_as_clean(world)


def test_heads_are_a_fourth_output_of_one_row(world: FollowWorld, anvil: Anvil) -> None:
    anvil.mine(40)
    world.deploy(outputs=4)
    world.follow()
    anvil.mine(1)
    world.follow()
    (row,) = world.rows(3)
    latest = anvil.rpc.call("eth_getBlockByNumber", "latest", False)
    assert row[:3] == (31337, 42, latest["hash"])
    assert (row[4], row[5], row[6]) == (34, 26, 42)
    heads = world.cursor()["heads"]
    assert heads == {"latest": 42, "latest_hash": latest["hash"], "safe": 34, "finalized": 26}


def test_a_range_is_written_again_when_somebody_asks(world: FollowWorld, anvil: Anvil) -> None:
    anvil.traffic(40)
    world.deploy(max_blocks=10)
    world.follow()
    before, count = world.hashes(), len(world.commits())
    asked = {"repair": {"start": 5, "end": 24, "reason": "a gap"}}
    said = world.slice((asked, {"repair": {"start": 900, "end": 950}}))
    assert said["triggers_taken"] == [1, 2]
    world.follow()
    new = [(c.range_start, c.range_end) for c in world.commits()[count:]]
    assert new == [(5, 14), (15, 24)]
    assert world.hashes() == before
    assert world.cursor()["repairs"] == []


def test_repairs_and_new_blocks_take_turns(world: FollowWorld, anvil: Anvil) -> None:
    anvil.traffic(30)
    world.deploy(max_blocks=10)
    world.follow()
    count = len(world.commits())
    anvil.traffic(20)
    world.slice(({"repair": {"start": 0, "end": 19}},))
    world.follow()
    new = [(c.range_start, c.range_end) for c in world.commits()[count:]]
    assert new == [(0, 9), (32, 41), (10, 19), (42, 51)]
    same_as_clean(world)


def test_new_blocks_do_not_wait_for_a_repair_whose_receipts_are_always_of_another_block(
    world: FollowWorld, anvil: Anvil
) -> None:
    anvil.traffic(10)
    world.deploy()
    world.follow()
    head = anvil.traffic(5)

    def of_another_block(receipts: list[dict[str, str]]) -> None:
        receipts[0]["blockHash"] = "0x" + "ab" * 32

    with faulty(anvil.url, change_receipts={4: of_another_block}) as provider:
        world.url = provider.url
        said = world.slice(({"repair": {"start": 4, "end": 4}},))
    assert said["status"] == "Yielded", said
    assert world.cursor()["next"] == head + 1
    assert world.cursor()["repairs"] == [[4, 4]]
    world.url = anvil.url
    world.follow()
    assert world.cursor()["repairs"] == []
    same_as_clean(world)


def test_a_repair_that_a_reorg_overtakes_is_done_with_it(world: FollowWorld, anvil: Anvil) -> None:
    anvil.traffic(30)
    world.deploy()
    world.follow()
    anvil.random_reorg(10)
    world.slice(({"repair": {"start": 15, "end": 31}},))
    assert world.cursor()["repairs"] == [[15, 21]]
    world.follow()
    assert world.cursor()["repairs"] == []
    same_as_clean(world)
