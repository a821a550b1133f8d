"""The services of Spark runs, wired from the parts of an app."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trace_core.operators.api import load_operator
from trace_core.outbox.relay import Send
from trace_core.spark.ending import Endings
from trace_core.spark.hand_over import HandOver
from trace_core.spark.inputs import RunInputs
from trace_core.spark.outputs import RunOutputs
from trace_core.spark.payloads import RunPayloads
from trace_core.spark.repairs import Repairs
from trace_core.spark.starting import Starts
from trace_core.spark.store import RunStore
from trace_core.spark.watching import RunWatch

if TYPE_CHECKING:
    from trace_core.bootstrap.services import App
    from trace_core.storage.reader import PinnedReader


class SparkServices:
    def __init__(self, app: App) -> None:
        self._app = app

    @cached_property
    def store(self) -> RunStore:
        app = self._app
        return RunStore(app.state, app.clock, app.ids)

    @cached_property
    def hand_over(self) -> Send:
        """What a wake-up of the runtime does."""
        app = self._app
        return HandOver(app.state, self.store, app.clock, app.ids, app.waker).send(
            app.claims,
            app.spark_runner,
            app.jitter,
            concurrency=app.spark_concurrency,
            poll=app.timings.run_poll,
        )

    @cached_property
    def payloads(self) -> RunPayloads:
        return RunPayloads(self.store, self._app.payloads)

    @cached_property
    def starts(self) -> Starts:
        app = self._app
        return Starts(
            app.state, self.store, app.spark_runner, self.payloads, self._inputs, app.objects,
            app.catalog, app.ids, app.waker, app.object_address,
        )  # fmt: skip

    @cached_property
    def _inputs(self) -> RunInputs:
        app = self._app
        return RunInputs(app.state, app.pin_resolver, app.objects, self._reader, app.object_address)

    def _reader(self) -> PinnedReader:
        # Only with the first export: it loads Arrow.
        from trace_core.storage.reader import PinnedReader

        return PinnedReader(self._app.objects, self._app.data_reader)

    @cached_property
    def endings(self) -> Endings:
        app = self._app
        return Endings(
            app.state, self.store, self.payloads,
            RunOutputs(app.objects, lambda: app.row_store),
            app.completions, app.objects, self.repairs, app.waker, app.timings,
        )  # fmt: skip

    @cached_property
    def repairs(self) -> Repairs:
        app = self._app
        return Repairs(app.state, app.clock, app.ids, app.waker, self._check_request)

    def _check_request(self, operator: str, request: Mapping[str, Any]) -> bool:
        """Whether a source's operator understands that request."""
        spec = self._app.catalog.get(operator)
        if spec is None or spec.implementation is None:
            return False
        check = getattr(load_operator(spec.implementation), "check_request", None)
        if check is None:
            return False
        check(request)
        return True

    @cached_property
    def watch(self) -> RunWatch:
        app = self._app
        return RunWatch(
            self.store, app.spark_runner, self.endings, app.clock, app.waker, app.timings
        )
