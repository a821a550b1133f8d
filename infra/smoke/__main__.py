"""`make localstack-smoke`: deploy `local`, run the demo's DAG there, compare it with lite, destroy.

docs/deployment.md says what it proves and what it does not.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra.localstack.emulator import Emulator
from infra.localstack.installation import Installation
from infra.smoke import fallbacks, history, latency, log_canary, runs, tour
from infra.smoke.cloud import Cloud
from infra.smoke.errors import SmokeFailed
from infra.smoke.people import issuer, member
from infra.smoke.report import Report
from infra.smoke.state import state_database
from trace_core.kernel.errors import TraceError

_PUSH_SECONDS = 45.0
"""Less than a tick: a schedule could not have done it."""
_SCHEDULE_SECONDS = latency.TICK_SECONDS + 45.0
"""The next tick, and what LocalStack takes to look into a queue that was empty for a while."""


class Smoke:
    def __init__(self, home: Path, report: Report) -> None:
        self._home = home
        self._folder = home / "smoke"
        self._report = report
        self.problems: list[str] = []

    def run(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, mode=0o700)
        step = self._report.step
        with ExitStack() as stack:
            with step("start emulator, Postgres, issuer"):
                endpoint = stack.enter_context(self._emulator())
                state = stack.enter_context(state_database(self._folder / "postgres"))
                issuer_url, token = stack.enter_context(issuer(self._folder))
            cloud = Cloud(endpoint, self._folder)
            cloud.put_state_secret(state.secret)
            self._deploy(cloud, issuer_url)
            api = member(cloud.output("UrlUserApi"), token)
            with step("run the demo on LocalStack"):
                runs.run_demo(api, self._report.progress)
            with step("look around as a member"):
                self.problems += tour.problems(api, cloud.session)
            lite = self._measure(cloud, latency.Probe(api, state.dsn))
            self._compare(lite, history.read(state.dsn, runs.DAG))
            self._search_logs(cloud, [token, *tour.VALUES, *log_canary.lease_tokens(state.dsn)])
            self._destroy(cloud)

    def _deploy(self, cloud: Cloud, issuer_url: str) -> None:
        with self._report.step("cdk synth"):
            cloud.synth()
        with self._report.step("cdk bootstrap"):
            cloud.bootstrap()
        with self._report.step("cdk deploy"):
            cloud.deploy({"Emulator": cloud.endpoint, "Issuer": issuer_url})
        counts = cloud.resources()
        self._report.fact("resources", f"{sum(counts.values())} in {len(counts)} stacks")
        found = fallbacks.fallbacks(cloud.events())
        self._report.fact("created as a fallback", ", ".join(sorted(found)) or "none")
        self.problems += fallbacks.problems(found)

    def _measure(self, cloud: Cloud, probe: latency.Probe) -> history.History:
        """The two ways from an event to its claim, and between them a while without either."""
        step, fact = self._report.step, self._report.fact
        with latency.schedules_off(cloud.session) as rules:
            with step("push, with schedules off"):
                probe.deploy()
                probe.wait_until_quiet(_PUSH_SECONDS)
                answers = [probe.call(1), probe.call(1)]
                pushed = probe.wait(1, _PUSH_SECONDS)
            fact(f"push, {rules} schedules off: event to claimed", _seconds(pushed))
            fact("webhook, called twice with one id", f"requests {answers[0]} and {answers[1]}")
            if answers[0] != answers[1]:
                self.problems.append("a webhook that was repeated asked twice")
            with step("push off too, an event by hand"):
                told = latency.push_off(cloud.session)
                probe.wait_until_quiet(_PUSH_SECONDS)
                probe.call(2)
                latency.run_dispatcher(cloud.session)
            began = time.monotonic()
            with step("run the demo in lite"):
                lite = runs.run_lite(self._folder / "lite", self._report.progress)
            fact("neither of them", f"nothing claimed for {time.monotonic() - began:.1f} s")
            if not probe.untouched(2):
                self.problems.append("with neither push nor schedule, an event was worked on")
        with step("schedules on, wait for the next tick"):
            ticked = probe.wait(2, _SCHEDULE_SECONDS)
        fact(f"schedule, push of {told} functions off: event to claimed", _seconds(ticked))
        counted = probe.counted()
        fact("payloads over 256 KB, by reference", f"{counted} of 2 came whole")
        if counted != 2:
            self.problems.append("a payload that went by reference did not arrive whole")
        return lite

    def _compare(self, lite: history.History, aws: history.History) -> None:
        for name, ours, theirs in (
            ("tasks", lite.tasks, aws.tasks),
            ("events", lite.events, aws.events),
        ):
            found = list(history.differences(ours, theirs))
            verdict = "equal" if not found else "different"
            self._report.fact(
                f"{name} in lite and on LocalStack",
                f"{ours.total()} and {theirs.total()}: {verdict}",
            )
            self.problems += found
        self._report.fact(
            "attempts before the last one, not compared", f"{lite.repeated} and {aws.repeated}"
        )

    def _search_logs(self, cloud: Cloud, secrets: list[str]) -> None:
        written = log_canary.lines(cloud.session)
        self._report.fact("log lines searched for secrets", f"{len(written)}")
        self.problems += log_canary.problems(written, secrets)
        if not any('"service":"dispatcher"' in line.replace(" ", "") for line in written):
            self.problems.append("the logs have no line of the Dispatcher")

    def _destroy(self, cloud: Cloud) -> None:
        with self._report.step("cdk destroy"):
            cloud.destroy()
        left = cloud.left()
        self._report.fact("left after destroy", ", ".join(left) or "nothing")
        self.problems += [f"left after destroy: {each}" for each in left]

    @contextmanager
    def _emulator(self) -> Iterator[str]:
        """One of its own and new, from the installation that all share."""
        installation = Installation(self._home / "localstack" / "installed")
        emulator = Emulator(self._folder / "localstack", installation)
        try:
            yield emulator.acquire(self._report.progress).endpoint
        finally:
            emulator.release()


def _seconds(claimed: latency.Claimed) -> str:
    return f"{claimed.by_worker:.1f} s by a worker, {claimed.by_function:.1f} s by a function"


def main() -> int:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        # Nothing is left that could name an account or another emulator.
        del os.environ[name]
    home = Path(os.environ.get("TRACE_HOME", ".trace")).expanduser().resolve()
    report = Report()
    smoke = Smoke(home, report)
    try:
        smoke.run()
    except (SmokeFailed, TraceError) as error:
        smoke.problems.append(str(error))
    report.end(smoke.problems)
    return 1 if smoke.problems else 0


if __name__ == "__main__":
    sys.exit(main())
