"""The whole platform in one process: three APIs, the scheduled functions, a worker."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from functions.dispatcher.handler import handler as dispatcher
from functions.internal_api.handler import handler as internal_api
from functions.outbox_relay.handler import handler as outbox_relay
from functions.reaper.handler import handler as reaper
from functions.staging_cleanup.handler import handler as staging_cleanup
from functions.task_api.handler import handler as task_api
from functions.user_api.handler import handler as user_api
from trace_core import bootstrap
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.adapters.lite.scheduler import Scheduled, Scheduler
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.ports.queue import wake_queue
from trace_core.ports.waker import Function
from trace_core.settings import Settings
from trace_core.worker.client import HttpClient, WorkerApi
from trace_core.worker.logs import AttemptLogs
from trace_core.worker.wake_ups import QueueWakeUps, RemoteWakeUps, WakeUps
from trace_core.worker.wrapper import Wrapper, WrapperSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choices:
    """What `trace dev` lets people choose, and tests switch off."""

    children: int = 2
    schedules: bool = True
    push: bool = True
    sweep_seconds: float = 5.0
    dispatch_seconds: float = 1.0
    """The next slice of a source may start this late."""
    reap_seconds: float = 5.0
    clean_seconds: float = 3600.0
    stop_grace_seconds: float = 3.0


class Platform:
    """Everything runs between `start` and `stop`."""

    def __init__(self, settings: Settings, choices: Choices | None = None, **parts: object) -> None:
        self._settings = settings
        self._choices = choices or Choices()
        self._parts = parts
        self._stack = ExitStack()
        self.app: App
        self.scheduler: Scheduler
        self.servers: tuple[LocalServer, ...] = ()
        self.issuer: LocalServer | None = None
        """The development issuer, unless users have one of their own."""
        self.person: str | None = None
        """Who is at this machine, as that issuer says it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise

    def stop(self) -> None:
        """In the order in which nothing is lost: the worker first, the database last."""
        self._stack.close()

    def _start(self) -> None:
        settings = self._settings
        # Ports first: a conflict is found before anything else is begun.
        ports = (settings.user_port, settings.internal_port, settings.task_port)
        apis = (("user_api", user_api), ("internal_api", internal_api), ("task_api", task_api))
        for (name, handler), port in zip(apis, ports, strict=True):
            server = LocalServer(name, handler, port)
            self._stack.callback(server.stop)
            self.servers += (server,)
        user, internal, task = self.servers
        if settings.oidc_issuer is None:
            self.issuer = LocalServer("issuer", self._issue, settings.issuer_port)
            self._stack.callback(self.issuer.stop)
        settings = settings.model_copy(
            update={
                "user_port": user.port,
                "internal_port": internal.port,
                "task_port": task.port,
                "issuer_port": self.issuer.port if self.issuer else settings.issuer_port,
                "internal_url": None,
                "task_api_url": None,
            }
        )
        self.app = self._stack.enter_context(bootstrap.running(App(settings, **self._parts)))
        self.app.migrate()
        worker_token = self.app.worker_token
        if self.issuer:
            # Commands come in over HTTP, with a token for a member who must be there.
            self.person = self.app.local_user
        for server in self._all_servers():
            server.start()
        # Stopped again before the app closes, and so before the database goes.
        self._stack.callback(self._stop_servers)
        self._start_scheduler()
        if self._choices.children:
            self._start_worker(worker_token)

    def _stop_servers(self) -> None:
        self.app.end_waits()
        for server in self._all_servers():
            server.stop()

    def _all_servers(self) -> tuple[LocalServer, ...]:
        return (*self.servers, self.issuer) if self.issuer else self.servers

    def _issue(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        return self.app.development_issuer.handler(event, context)

    def _start_scheduler(self) -> None:
        sweep = timedelta(seconds=self._choices.sweep_seconds)
        functions = (
            Scheduled("outbox_relay", outbox_relay, sweep, Function.OUTBOX_RELAY),
            Scheduled(
                "dispatcher",
                dispatcher,
                timedelta(seconds=self._choices.dispatch_seconds),
                Function.DISPATCHER,
            ),
            Scheduled("reaper", reaper, timedelta(seconds=self._choices.reap_seconds)),
            Scheduled(
                "staging_cleanup",
                staging_cleanup,
                timedelta(seconds=self._choices.clean_seconds),
            ),
        )
        self.scheduler = Scheduler(
            functions,
            self.app.state_dsn,
            schedules=self._choices.schedules,
            push=self._choices.push,
        )
        self._stack.callback(self.scheduler.stop)
        self.scheduler.start()

    def _start_worker(self, token: str) -> None:
        # The token is one of the local user's org, and so are the hints that it can follow.
        queue = wake_queue(Runtime.WORKER, self.app.own_org)
        wake_ups = QueueWakeUps(self.app.queue, queue)
        worker = Worker(self.app, token, self._choices, wake_ups=wake_ups)
        self._stack.callback(worker.stop)
        worker.start()


class Worker:
    """One wrapper with its children, in a thread of its own."""

    def __init__(
        self,
        app: App,
        token: str,
        choices: Choices,
        *,
        wake_ups: WakeUps | None = None,
        poll_seconds: float | None = None,
    ) -> None:
        """Without wake-ups of its own it lets the internal API wait for it."""
        self._client = HttpClient(app.settings.internal_address, token)
        api = WorkerApi(self._client)
        self._pool = app.child_pool(choices.children)
        settings = WrapperSettings(
            worker_id=f"{socket.gethostname()[:100]}:{os.getpid()}",
            poll_seconds=poll_seconds or choices.sweep_seconds,
            listen_seconds=1.0,
            stop_grace_seconds=choices.stop_grace_seconds,
        )
        self._wrapper = Wrapper(
            api,
            self._pool,
            wake_ups=wake_ups or RemoteWakeUps(api),
            secrets=app.secrets,
            logs=AttemptLogs(app.objects),
            clock=app.clock,
            settings=settings,
            row_store=lambda: app.row_store,
            egress=app.egress,
        )
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self.error: Exception | None = None

    def start(self) -> None:
        self._pool.warm()
        self._thread.start()

    def _run(self) -> None:
        try:
            self._wrapper.run()
        except Exception as error:
            self.error = error
            logger.exception("the worker stopped")

    def wait(self, seconds: float) -> bool:
        """Whether it ended within that time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._wrapper.stop()
            self._thread.join()
        self._pool.close()
        self._client.close()
