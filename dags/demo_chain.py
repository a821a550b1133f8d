"""`make demo-chain`: a chain is followed, backfilled, worked on with Spark, and repaired."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dags.chain_node import DemoChain
from dags.chain_proof import Proof, prove
from dags.stage import DemoFailed, console, logs_aside, say
from trace_cli.changes import deploy_file
from trace_cli.datasets import only, show_head
from trace_cli.platform import Choices, Platform
from trace_cli.transport import LocalTransport
from trace_client import Client
from trace_core.adapters.lite.local_spark import LocalSparkRunner
from trace_core.http.work_answers import JobStatus, Status
from trace_core.settings import Settings

HERE = Path(__file__).parent
DAG_FILE = HERE / "chain.dag.yaml"
SHOWN = {
    "blocks": "number,timestamp,transaction_count,log_count,verified",
    "transactions": "block_number,transaction_index,value,gas_used,status",
    "logs": "block_number,log_index,address,topic0",
    "transfers": "block_number,log_index,to,value",
    "volume": "from_block,transfers,senders,amount",
    "verdicts": "range_start,range_end,verdict,gaps,broken_links,checked_at",
    "heads": "latest,safe,finalized,followed",
}
"""Of each dataset a few columns, so that a row fits on a screen."""
ABOUT = {
    "follow": "follows the node, block by block",
    "backfill": "reads history with Cryo",
    "compact": "hot ranges to sorted Parquet",
    "transfers": "decodes ERC-20 transfers",
    "volume": "adds them up",
    "integrity": "judges each range",
}
PATIENCE_SECONDS = 120.0
"""So long nothing may be completed."""
LINE_SECONDS = 10.0
"""So often a line says how far it is, where there is no terminal."""


@dataclass
class Story:
    """One run of the demo: the chain, the platform, and what has been seen so far."""

    api: Client
    chain: DemoChain
    platform: Platform
    began: float

    def wait(self, title: str, done: Callable[[Status], bool], grow_to: int | None = None) -> None:
        """Until it is done, showing the jobs; the chain grows meanwhile."""
        seen, ends, said = -1, 0.0, time.monotonic()
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            while seen < 0 or time.monotonic() < ends:
                if grow_to is not None and self.chain.head < grow_to:
                    self.chain.grow(min(grow_to, self.chain.head + 4))
                status = self.api.status()
                failed = [job for job in status.jobs if job.failed]
                if failed:
                    raise DemoFailed(f"{failed[0].failed} tasks of {failed[0].job} failed")
                done_by_now = status.totals.completed_24h
                if done_by_now != seen:
                    seen, ends = done_by_now, time.monotonic() + PATIENCE_SECONDS
                if (grow_to is None or self.chain.head >= grow_to) and done(status):
                    return
                if console.is_terminal:
                    live.update(self._screen(title, status.jobs))
                elif time.monotonic() >= said + LINE_SECONDS:
                    said = time.monotonic()
                    say(self._line(title, status.jobs))
                time.sleep(0.2)
        raise DemoFailed(f"nothing was completed for {PATIENCE_SECONDS:.0f} s: {title}")

    def _title(self, title: str) -> str:
        seconds = time.monotonic() - self.began
        return f"{title}   node at block {self.chain.head}   {seconds:.0f} s"

    def _line(self, title: str, jobs: list[JobStatus]) -> str:
        """For a file or a pipe, where a table cannot be drawn over."""
        counts = ", ".join(f"{job.job} {job.completed_24h}" for job in jobs if job.job in ABOUT)
        return f"{self._title(title)}   done: {counts}"

    def _screen(self, title: str, jobs: list[JobStatus]) -> Table:
        table = Table(title=self._title(title), title_justify="left")
        table.add_column("job")
        table.add_column("what it does")
        for column in ("done", "running", "queued", "retrying"):
            table.add_column(column, justify="right")
        for job in jobs:
            if job.job in ABOUT:
                counts = (job.completed_24h, job.running, job.queued, job.retrying)
                table.add_row(job.job, ABOUT[job.job], *(str(each) for each in counts))
        return table

    def settled(self, status: Status) -> bool:
        """Nothing waits and nothing runs but the follower, which is at the head of the node."""
        busy = any(
            job.queued + job.running + job.retrying
            for job in status.jobs
            if job.activation != "source"
        )
        return not busy and not status.outbox.pending and self.followed() == self.chain.head

    def followed(self) -> int:
        rows = self.api.head("heads", limit=1)
        if not rows.rows:
            return -1
        at = [each.name for each in rows.columns].index("followed")
        return int(rows.rows[0][at] or -1)

    def proof(self) -> Proof:
        return prove(self.platform.app, self.chain.url)


def main() -> int:
    began = time.monotonic()
    home = Path(os.environ.get("TRACE_HOME", ".trace")) / "demo-chain"
    shutil.rmtree(home, ignore_errors=True)
    console.rule("[bold]Trace: a chain, followed, backfilled, worked on and repaired[/]")
    with logs_aside(home), DemoChain() as chain:
        kind = "anvil, a real node" if chain.is_real else "the bundled chain (no anvil here)"
        chain.grow(chain.size.history)
        say(f"Started {kind}; {chain.size.history} blocks are history")
        say("Starting Postgres, the APIs, a worker, the platform's clock and Spark …")
        choices = Choices(children=3, reap_seconds=1.0, sweep_seconds=5.0, dispatch_seconds=0.5)
        with Platform(_settings(home, chain), choices) as platform:
            _warm(platform)
            story = Story(Client(LocalTransport(platform.app)), chain, platform, began)
            try:
                ended = _tell(story, home)
            except DemoFailed as error:
                console.print(f"[red]The demo failed:[/] {error}; see {home / 'demo.log'}")
                return 1
    return 0 if ended else 1


def _settings(home: Path, chain: DemoChain) -> Settings:
    upstream = {"url": chain.url, "allow_private": True}
    return Settings.model_validate(
        {
            "home": home,
            "user_port": 0,
            "internal_port": 0,
            "task_port": 0,
            "issuer_port": 0,
            "lease_seconds": 10,
            "retry_seconds": 1,
            "upstreams": json.dumps({f"node_{each}": upstream for each in "abc"}),
            # It looks at itself five times a second.
            "user_requests": 10_000,
            "org_requests": 10_000,
        }
    )


def _warm(platform: Platform) -> None:
    """Spark takes some seconds to start, in which the rest begins."""
    runner = platform.app.spark_runner
    assert isinstance(runner, LocalSparkRunner)  # noqa: S101 - the profile is lite
    runner.warm()


def _tell(story: Story, home: Path) -> bool:
    api, chain, size = story.api, story.chain, story.chain.size
    file = home / DAG_FILE.name
    file.write_text(size.of_file(DAG_FILE.read_text(encoding="utf-8")), encoding="utf-8")
    deploy_file(api, file)
    say(f"Deployed [bold]{DAG_FILE.name}[/]; it follows from block {size.history} on")
    api.trigger("chain", "history", {"start": 0, "end": size.history - 1})
    _type(f"trace dag trigger chain history start=0 end={size.history - 1}")
    story.wait("Following and backfilling", story.settled, grow_to=size.followed)
    _report("Followed and backfilled", story.proof())
    depth = chain.reorg()
    say(
        f"[red]A reorg:[/] the last {depth} blocks of the node are others now, "
        "also below what has been compacted"
    )
    chain.grow(chain.head + 1)
    story.wait("Repairing", story.settled)
    _report("After the reorg", story.proof())
    story.wait("Going on", story.settled, grow_to=size.end)
    proof = story.proof()
    _report("At the end", proof)
    _datasets(api)
    _last_screen(story, home)
    return proof.holds


def _type(command: str) -> None:
    console.print(f"\n[dim]$[/] [bold]{command}[/]", soft_wrap=True)


def _report(title: str, proof: Proof) -> None:
    console.print(proof.table(title))
    if not proof.holds:
        raise DemoFailed("rows differ from those of the node")


def _datasets(api: Client) -> None:
    for name, columns in SHOWN.items():
        _type(f"trace dataset head {name} --limit 3 --columns {columns}")
        show_head(only(api.head(name, limit=3), columns.split(",")))


def _last_screen(story: Story, home: Path) -> None:
    seconds = time.monotonic() - story.began
    lines = Text.from_markup(
        "[green]Every row is that of the node[/], although history came by Cryo, the rest block by "
        "block, old ranges moved from Postgres to Parquet meanwhile, and a reorg rewrote what had "
        "moved. Each dataset was one relation all the time. "
        f"The whole demo took {seconds:.0f} s."
    )
    console.print(Panel(lines, title="What happened", title_align="left"))
    console.print("Look around; the state of the demo is kept until the next one:", style="bold")
    trace = f"TRACE_HOME={home} .venv/bin/trace"
    for command in ("status", "dataset show blocks", "dataset head verdicts", "task list"):
        console.print(f"  {trace} {command}", soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
