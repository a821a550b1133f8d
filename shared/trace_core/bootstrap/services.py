"""The services of one process, wired from their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import UUID

from trace_core.bootstrap.registry import RegistryServices
from trace_core.bootstrap.spark import SparkServices
from trace_core.dag.model import Column, Runtime, UpdateStrategy
from trace_core.database.history import History
from trace_core.deploy.backfills import Backfills
from trace_core.deploy.builds import Builds, Verdicts
from trace_core.deploy.deploy_views import DeployViews
from trace_core.deploy.hooks import Hooks
from trace_core.deploy.plans import Plans
from trace_core.deploy.repoint import KIND as REPOINT
from trace_core.deploy.repoint import Repoints
from trace_core.deploy.requests import Requests
from trace_core.deploy.service import Deploys
from trace_core.deploy.views import DagViews
from trace_core.dispatcher.control import Control
from trace_core.dispatcher.service import Dispatcher
from trace_core.identity.capability_token import InputPin, TaskGrant
from trace_core.identity.provision import Provisioning, provisioned_token
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, LeaseToken, OrgId
from trace_core.kernel.limits import Timings
from trace_core.outbox.admin import OutboxAdmin
from trace_core.outbox.queues import QueueAdmin
from trace_core.outbox.relay import Relay, Send, send_wakeups
from trace_core.outbox.store import Outbox, OutboxRow
from trace_core.ports.waker import Function
from trace_core.registry.lineage import Lineage
from trace_core.registry.pins import PinResolver
from trace_core.settings import Profile
from trace_core.spark import model as spark_model
from trace_core.storage.model import Manifest, ManifestIdentity
from trace_core.storage.published_views import PublishedViews
from trace_core.storage.recorded import RecordedCommits
from trace_core.storage.stored_manifests import verify_manifest
from trace_core.tasks.admin import TaskAdmin
from trace_core.tasks.claim import Claims
from trace_core.tasks.complete import Completions
from trace_core.tasks.event_views import EventViews
from trace_core.tasks.events import EventAcceptance
from trace_core.tasks.inputs import TaskInputs
from trace_core.tasks.invalidations import Invalidations
from trace_core.tasks.invoke import invoke_ready
from trace_core.tasks.leases import Leases
from trace_core.tasks.names import TaskNames
from trace_core.tasks.outputs import ReadRecords
from trace_core.tasks.payload import Payloads, TokenRequest
from trace_core.tasks.quotas import Quotas
from trace_core.tasks.reaper import Reaper
from trace_core.tasks.reconcile import DataRecords, Reconciliation
from trace_core.tasks.slots import Slots
from trace_core.tasks.staging import StagingCleanup
from trace_core.tasks.views import Views
from trace_core.worker.client import HttpClient, WorkerApi
from trace_core.worker.drain import Drain
from trace_core.worker.logs import AttemptLogs


class App(RegistryServices):
    """All services of one process; handlers, commands and tests get them here."""

    @property
    def timings(self) -> Timings:
        return self._part("timings", lambda: self.settings.timings)

    @property
    def claims(self) -> Claims:
        return self._part("claims", lambda: Claims(self.state, self.clock, self.ids, self.timings))

    @property
    def payloads(self) -> Payloads:
        return self._part(
            "payloads", lambda: Payloads(self.state, self.clock, self._issue, self.timings)
        )

    @property
    def leases(self) -> Leases:
        return self._part("leases", lambda: Leases(self.state, self.clock, self.timings))

    @property
    def pin_resolver(self) -> PinResolver:
        return self._part("pin_resolver", lambda: PinResolver(self.state))

    @property
    def task_inputs(self) -> TaskInputs:
        return self._part("task_inputs", self._build_task_inputs)

    def _build_task_inputs(self) -> TaskInputs:
        return TaskInputs(self.state, self.leases, self.pin_resolver)

    @property
    def events(self) -> EventAcceptance:
        return self._part("events", self._build_events)

    def _build_events(self) -> EventAcceptance:
        return EventAcceptance(
            self.state, self.clock, self.ids, self.waker, read_manifest=self._read_manifest,
            read_records=self._read_records,
        )  # fmt: skip

    def _read_manifest(self, key: str, prefix: str, expected: ManifestIdentity) -> Manifest:
        return verify_manifest(self.objects, key, prefix, expected)

    @property
    def _read_records(self) -> ReadRecords | None:
        return RecordedCommits(lambda: self.data_writer) if self.has_data else None

    @property
    def completions(self) -> Completions:
        return self._part("completions", self._build_completions)

    def _build_completions(self) -> Completions:
        return Completions(
            self.state, self.clock, self.ids, self.waker, self.jitter, self.timings,
            read_manifest=self._read_manifest, read_records=self._read_records,
        )  # fmt: skip

    @property
    def reaper(self) -> Reaper:
        return self._part("reaper", self._build_reaper)

    def _build_reaper(self) -> Reaper:
        return Reaper(self.state, self.clock, self.ids, self.waker, self.jitter, self.timings)

    @property
    def task_admin(self) -> TaskAdmin:
        return self._part("task_admin", self._build_task_admin)

    def _build_task_admin(self) -> TaskAdmin:
        return TaskAdmin(self.state, self.clock, self.ids, self.waker)

    @property
    def quotas(self) -> Quotas:
        return self._part("quotas", lambda: Quotas(self.state, self.clock, self.ids, self.waker))

    @property
    def slots(self) -> Slots:
        return self._part("slots", self._build_slots)

    def _build_slots(self) -> Slots:
        return Slots(self.state, self.clock, self.ids, self.waker, self.settings.quarantine)

    @property
    def outbox_admin(self) -> OutboxAdmin:
        return self._part("outbox_admin", self._build_outbox_admin)

    def _build_outbox_admin(self) -> OutboxAdmin:
        return OutboxAdmin(self.state, self.clock, self.ids, self.waker)

    @property
    def queue_admin(self) -> QueueAdmin:
        return self._part("queue_admin", self._build_queue_admin)

    def _build_queue_admin(self) -> QueueAdmin:
        return QueueAdmin(self.state, self.clock, self.ids, self.queue)

    @property
    def views(self) -> Views:
        return self._part("views", lambda: Views(self.state, self.clock))

    @property
    def event_views(self) -> EventViews:
        return self._part("event_views", lambda: EventViews(self.state, self.clock))

    @property
    def dag_views(self) -> DagViews:
        return self._part("dag_views", lambda: DagViews(self.state))

    @property
    def deploy_views(self) -> DeployViews:
        return self._part("deploy_views", lambda: DeployViews(self.state, self.clock))

    @property
    def task_names(self) -> TaskNames:
        return self._part("task_names", lambda: TaskNames(self.state))

    @property
    def deploys(self) -> Deploys:
        return self._part("deploys", self._build_deploys)

    def _build_deploys(self) -> Deploys:
        return Deploys(self.state, self.clock, self.ids, self.waker, self.catalog, self._make_table)

    def _make_table(
        self,
        dataset_uuid: UUID,
        dataset_version: UUID,
        columns: tuple[Column, ...],
        update_strategy: UpdateStrategy,
        unique_key: tuple[str, ...],
    ) -> None:
        from trace_core.storage.versions import VersionTable, VersionTables

        dataset, version = DatasetUuid(dataset_uuid), DatasetVersion(dataset_version)
        VersionTables(self.data).ensure_version(
            VersionTable(dataset, version, columns, update_strategy, unique_key)
        )

    @property
    def builds(self) -> Builds:
        return self._part("builds", self._build_builds)

    def _build_builds(self) -> Builds:
        return Builds(self.state, self.clock, self.ids, self.waker, self._run_checks)

    def _run_checks(self, org_id: OrgId, dag_version: UUID) -> Verdicts:
        # Only now: a reader of rows loads Arrow.
        from trace_core.deploy.candidate_checks import CandidateChecks
        from trace_core.storage.reader import PinnedReader

        checks = CandidateChecks(
            self.state,
            self.pin_resolver,
            lambda: PinnedReader(self.objects, self.data_reader),
        )
        return checks(org_id, dag_version)

    @property
    def plans(self) -> Plans:
        return self._part("plans", lambda: Plans(self.state, self.catalog))

    @property
    def backfills(self) -> Backfills:
        return self._part("backfills", self._build_backfills)

    def _build_backfills(self) -> Backfills:
        return Backfills(self.state, self.clock, self.ids, self.waker, self.task_admin)

    @property
    def requests(self) -> Requests:
        return self._part("requests", self._build_requests)

    def _build_requests(self) -> Requests:
        return Requests(self.state, self.clock, self.ids, self.waker, self.catalog)

    @property
    def hooks(self) -> Hooks:
        return self._part("hooks", self._build_hooks)

    def _build_hooks(self) -> Hooks:
        return Hooks(self.state, self.clock, self.ids, self.webhook_sources)

    @property
    def provisioning(self) -> Provisioning:
        return self._part("provisioning", self._build_provisioning)

    def _build_provisioning(self) -> Provisioning:
        return Provisioning(self.orgs, self.worker_tokens, self.secrets, self.issuer_name)

    @contextmanager
    def org_worker(self, org_id: OrgId, worker_id: str) -> Iterator[Drain]:
        """Works for one org; the token is read each time, so that a new one is seen at once."""
        token = provisioned_token(self.secrets, org_id)
        with closing(HttpClient(self.settings.internal_address, token)) as client:
            yield Drain(
                WorkerApi(client),
                self.worker_pool,
                worker_id=worker_id,
                secrets=self.secrets,
                logs=AttemptLogs(self.objects),
                clock=self.clock,
                row_store=lambda: self.row_store,
                egress=self.egress,
            )

    @property
    def relay(self) -> Relay:
        return self._part("relay", self._build_relay)

    def _build_relay(self) -> Relay:
        sends: dict[str, Send] = {
            Runtime.WORKER.value: send_wakeups(self.queue, Runtime.WORKER),
            Runtime.LAMBDA.value: invoke_ready(
                self.claims,
                self.payloads,
                self.task_runtime,
                self.jitter,
                concurrency=self._adapters.runner_concurrency(),
            ),
            Runtime.DISPATCHER.value: self._wake_dispatcher,
        }
        # It looks for the data database when it needs it: work goes on while it is away.
        kinds: dict[str, Send] = {REPOINT: self._repoint} if self.has_data else {}
        if self.has_spark:
            sends[Runtime.EMR_SERVERLESS.value] = lambda *given: self.spark.hand_over(*given)
            kinds[spark_model.START] = lambda *given: self.spark.starts.start(*given)
            kinds[spark_model.CANCEL] = lambda *given: self.spark.starts.cancel(*given)
        return Relay(Outbox(self.state, self.jitter), self.clock, sends, kinds=kinds)

    def _repoint(self, org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        self.repoints.send(org_id, rows)

    def _wake_dispatcher(self, _org_id: OrgId, _rows: Sequence[OutboxRow]) -> None:
        self.waker.wake(Function.DISPATCHER)

    @property
    def has_data(self) -> bool:
        """A deployment without rows in Postgres may do without a data database."""
        settings = self.settings
        on_one_machine = settings.profile is Profile.LITE
        given = settings.data_dsn or settings.data_secret or "data" in self._given
        return on_one_machine or bool(given)

    @property
    def has_spark(self) -> bool:
        """A deployment without PySpark operators may do without a place to run them."""
        on_one_machine = self.settings.profile is Profile.LITE
        given = self.settings.emr_application or "spark_runner" in self._given
        return on_one_machine or bool(given)

    @property
    def spark(self) -> SparkServices:
        return self._part("spark", lambda: SparkServices(self))

    @property
    def repoints(self) -> Repoints:
        return self._part("repoints", self._build_repoints)

    def _build_repoints(self) -> Repoints:
        return Repoints(self.state, PublishedViews(self.data), self.clock, self.ids, self.waker)

    @property
    def history(self) -> History:
        return self._part("history", lambda: History(self.state, self.clock.now))

    @property
    def dispatcher(self) -> Dispatcher:
        return self._part("dispatcher", self._build_dispatcher)

    def _build_dispatcher(self) -> Dispatcher:
        control = Control(
            self.state, self.clock, self.claims, self.completions, self.payloads, self.catalog
        )
        of_data = (lambda: self.repoints.chore(),) if self.has_data else ()
        of_spark = (lambda: self.spark.watch.chore(),) if self.has_spark else ()
        return Dispatcher(
            self.state, self.clock, self.ids, self.waker, control, self.timings,
            chores=(
                self.builds.chore, self.backfills.chore, self.read_rights.sweep,
                *of_data, *of_spark,
            ),
        )  # fmt: skip

    @property
    def reconciliation(self) -> Reconciliation:
        return self._part("reconciliation", self._build_reconciliation)

    def _build_reconciliation(self) -> Reconciliation:
        def records() -> DataRecords:
            from trace_core.storage.postgres_output import PostgresOutput

            return PostgresOutput(self.data_writer, self.clock)

        return Reconciliation(self.state, self.clock, self.ids, self.waker, records, self.timings)

    @property
    def lineage(self) -> Lineage:
        return self._part("lineage", lambda: Lineage(self.state))

    @property
    def staging_cleanup(self) -> StagingCleanup:
        return self._part("staging_cleanup", self._build_staging_cleanup)

    def _build_staging_cleanup(self) -> StagingCleanup:
        return StagingCleanup(self.state, self.clock, self.objects)

    @property
    def invalidations(self) -> Invalidations:
        return self._part("invalidations", self._build_invalidations)

    def _build_invalidations(self) -> Invalidations:
        return Invalidations(self.state, self.clock, self.ids, self.waker)

    def _issue(self, request: TokenRequest) -> str:
        """The grant of one attempt: its inputs at their pins, and its own prefixes."""
        return self.tokens.issue(
            TaskGrant(
                request.org_id,
                request.task_id,
                request.attempt,
                LeaseToken(request.lease_token),
                request.job_id,
                tuple(
                    InputPin(DatasetVersion(pin.dataset_version), pin.number)
                    for pin in request.pins
                ),
                request.read_prefixes,
                request.write_prefixes,
                (self.clock.now() + request.lifetime).replace(microsecond=0),
            )
        )
