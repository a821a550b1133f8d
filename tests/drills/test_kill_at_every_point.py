"""kill -9 at every named point of build, commit, cutover and rollback: whoever comes next finds all
or nothing of each step, and goes on to the same end."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drills.row_world import RowWorld, expected
from tests.postgres_server import PostgresServer

BLOCKS = {number: f"a{number}" for number in range(3)}
LATER = {2: "b2", 3: "a3"}
NOT_OURS = ("claim", "relay_send", "outbox", "reap", "move_due", "sweep", "migrate")
"""Points of what the simulation crashes all the time, and that no deploy adds anything to."""


def prepare(world: RowWorld) -> None:
    world.deploy(1)
    world.announce(BLOCKS)
    world.settle()


def change(world: RowWorld) -> None:
    """From here on every point may be the last."""
    world.deploy(2)
    world.announce(LATER)
    world.settle()
    world.rollback()
    world.settle()


def watch(world: RowWorld, hear: Callable[[str], None]) -> None:
    world.app.state.crash_points = hear
    world.app.data_writer.crash_points = hear


def finish(world: RowWorld, said: int) -> None:
    """What a person and the platform do after a crash: ask again for what was not answered."""
    world.blocks = dict(BLOCKS)
    if said < 1:
        world.deploy(2)
    if said < 2:
        world.announce(LATER)
    else:
        world.blocks.update(LATER)
    world.settle()
    if said < 4:
        active = world.app.dag_views.dag(world.org, "pair")["version"]
        if active == 2:
            world.rollback()
    world.settle()


def _points(state_dsn: str, data_dsn: str, folder: str, out: str) -> None:
    world = RowWorld(state_dsn, data_dsn, Path(folder))
    prepare(world)
    heard: dict[str, None] = {}
    watch(world, lambda name: heard.setdefault(name))
    change(world)
    Path(out).write_text("\n".join(heard))
    world.close()


def _die_at(state_dsn: str, data_dsn: str, folder: str, point: str) -> None:
    world = RowWorld(state_dsn, data_dsn, Path(folder))
    prepare(world)

    def die(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    watch(world, die)
    said = Path(folder) / "said"
    for step in (
        lambda: world.deploy(2),
        lambda: world.announce(LATER),
        world.settle,
        world.rollback,
        world.settle,
    ):
        step()
        # What its caller was told; a pipe would die with the process.
        with said.open("a") as file:
            file.write("x")


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(
        ["tests.drills.row_world", "tests.drills.test_kill_at_every_point"]
    )
    return found


@pytest.mark.parametrize("half", [0, 1])
def test_every_point_can_be_the_last_one(
    half: int,
    postgres_server: PostgresServer,
    processes: multiprocessing.context.ForkServerContext,
    tmp_path: Path,
) -> None:
    def run(target: Callable[..., None], folder: Path, *more: str) -> tuple[str, str, int | None]:
        folder.mkdir()
        state, data = postgres_server.clone(), postgres_server.clone("data")
        process = processes.Process(target=target, args=(state, data, str(folder), *more))
        process.start()
        process.join(120)
        return state, data, process.exitcode

    state, data, code = run(_points, tmp_path / "all", str(tmp_path / "points"))
    assert code == 0
    postgres_server.drop(state)
    postgres_server.drop(data)
    points = [
        each
        for each in (tmp_path / "points").read_text().split("\n")
        if not each.startswith(NOT_OURS)
    ]
    names = {each.partition(":")[0] for each in points}
    assert {"deploy", "fill_gap", "cutover", "rollback", "revive", "cancel_retired"} <= names
    assert len(points) > 30
    for number, point in enumerate(points[half::2]):
        folder = tmp_path / str(number)
        state, data, code = run(_die_at, folder, point)
        assert code == -signal.SIGKILL, point
        said = len((folder / "said").read_text()) if (folder / "said").exists() else 0
        # The objects are where the dead process left them.
        world = RowWorld(state, data, folder)
        try:
            world.expire()
            finish(world, said)
            assert world.plain_rows() == expected(world.blocks, 1), point
            assert world.open_work() == {}, point
        finally:
            world.close()
        postgres_server.drop(state)
        postgres_server.drop(data)
