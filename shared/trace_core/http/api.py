"""One API: its routes on a Powertools resolver, with the same steps before and after each.

Find the route, know the caller, read the body, call, answer. Whatever is raised on the way becomes
an answer here and nowhere else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent
from pydantic import BaseModel, TypeAdapter

from trace_core.http import body
from trace_core.http.answers import Answer, refusal
from trace_core.http.auth import Authenticator, Presented
from trace_core.http.principal import Principal
from trace_core.http.routes import Route, Surface, route
from trace_core.identity.model import Actor
from trace_core.identity.rate_limits import Allowance, RateLimits
from trace_core.kernel.errors import NotFound, RateLimited
from trace_core.telemetry import Telemetry

Model = TypeVar("Model", bound=BaseModel)
One = TypeVar("One", bound=BaseModel)
Many = TypeVar("Many", bound=BaseModel)
_PARAMETER = re.compile(r"[A-Za-z0-9_-]{1,128}")


class _KnowsCallers(Protocol):
    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def rate_limits(self) -> RateLimits: ...


App = TypeVar("App", bound=_KnowsCallers)


class Request(Generic[App]):
    """What an endpoint gets."""

    def __init__(
        self,
        app: App,
        event: Mapping[str, Any],
        headers: Mapping[str, str],
        path: Mapping[str, str],
        principal: Principal | None,
    ) -> None:
        self.app = app
        self.path = path
        self._event = event
        self._headers = headers
        self._principal = principal

    @property
    def principal(self) -> Principal:
        if self._principal is None:
            raise RuntimeError("this route has no principal")
        return self._principal

    @property
    def actor(self) -> Actor:
        return self.principal.actor

    def parse(self, model: type[Model]) -> Model:
        data = body.body_of(self._event)
        return body.parse(model, data, self._headers.get("content-type", ""))

    def parse_one_or_many(self, one: type[One], many: type[Many], field: str) -> One | Many:
        """The body as `many` when it has that field, else as `one`."""
        data = body.body_of(self._event)
        content_type = self._headers.get("content-type", "")
        if body.has_field(data, field):
            return body.parse(many, data, content_type)
        return body.parse(one, data, content_type)

    def query(self, model: type[Model]) -> Model:
        given = self._event.get("queryStringParameters") or {}
        parsed: Model = body.parse_value(TypeAdapter(model), given)
        return parsed


Endpoint = Callable[[Request[App]], object]


class _Resolver(APIGatewayRestResolver):
    """Keeps the running event to itself: Powertools keeps it on a class that all threads share."""

    def resolve(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        self.current_event = APIGatewayProxyEvent(dict(event))
        self.lambda_context = context
        try:
            return self._build_response(self._resolve())
        finally:
            self.context.clear()


class Api(Generic[App]):
    """The routes of one surface. `app` is called at the first request, not at import."""

    def __init__(self, surface: Surface, app: Callable[[], App], telemetry: Telemetry) -> None:
        self._surface = surface
        self._app = app
        self._telemetry = telemetry
        self._endpoints: dict[Route, Endpoint[App]] = {}
        self._idle: list[_Resolver] = []

    @property
    def routes(self) -> tuple[Route, ...]:
        return tuple(self._endpoints)

    def endpoint(self, declared: Route) -> Endpoint[App]:
        return self._endpoints[declared]

    def route(self, method: str, path: str) -> Callable[[Endpoint[App]], Endpoint[App]]:
        declared = route(self._surface, method, path)

        def register(endpoint: Endpoint[App]) -> Endpoint[App]:
            self._endpoints[declared] = endpoint
            return endpoint

        return register

    def resolve(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Answer one event; several threads may do so at once, each with its own resolver."""
        try:
            resolver = self._idle.pop()
        except IndexError:
            resolver = self._new_resolver()
        try:
            return resolver.resolve(event, context)
        finally:
            self._idle.append(resolver)

    def _new_resolver(self) -> _Resolver:
        resolver = _Resolver()

        @resolver.not_found
        def unknown_route(_error: Exception) -> Response[str]:
            self._telemetry.count("Requests")
            return _response(refusal(NotFound("There is no such route.")))

        for declared, endpoint in self._endpoints.items():
            self._add(resolver, declared, endpoint)
        return resolver

    def _add(self, resolver: _Resolver, declared: Route, endpoint: Endpoint[App]) -> None:
        @resolver.route(declared.path, method=declared.method)
        def serve(**path: str) -> Response[str]:
            event = resolver.current_event.raw_event
            return _response(self._serve(declared, endpoint, event, path))

    def _serve(
        self,
        declared: Route,
        endpoint: Endpoint[App],
        event: Mapping[str, Any],
        path: Mapping[str, str],
    ) -> Answer[Any]:
        started = time.perf_counter()
        self._telemetry.keys(route=f"{declared.method} {declared.path}")
        headers: dict[str, str] = {}
        try:
            answer = self._call(declared, endpoint, event, path, headers)
        except Exception as error:
            answer = refusal(error)
            if answer.status >= 500:
                self._telemetry.failure("The request failed", error)
        self._telemetry.count("Requests")
        self._telemetry.count("Requests4xx", 400 <= answer.status < 500)
        self._telemetry.count("Requests5xx", answer.status >= 500)
        self._telemetry.count("RequestsLimited", answer.status == 429)
        if not declared.waits:
            self._telemetry.milliseconds("Latency", (time.perf_counter() - started) * 1000)
        return Answer(answer.status, answer.body, {**headers, **answer.headers})

    def _call(
        self,
        declared: Route,
        endpoint: Endpoint[App],
        event: Mapping[str, Any],
        path: Mapping[str, str],
        answered: dict[str, str],
    ) -> Answer[Any]:
        """`answered` gets the headers that every answer from here on has, refused or not."""
        app = self._app()
        headers = {
            str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()
        }
        presented = Presented(
            headers,
            path,
            lambda: body.body_of(event),
            (event.get("requestContext") or {}).get("requestId"),
        )
        principal = app.authenticator.admit(declared, presented)
        if principal is not None:
            self._telemetry.keys(org=principal.org_id)
            _count(app.rate_limits, declared, principal, answered)
        if not all(_PARAMETER.fullmatch(value) for value in path.values()):
            raise NotFound
        found = endpoint(Request(app, event, headers, path, principal))
        answer: Answer[Any] = found if isinstance(found, Answer) else Answer(200, found)
        # Serialised here, so that a value JSON cannot hold is a logged 500 like any other.
        return Answer(answer.status, answer.text(), answer.headers)


def _count(
    limits: RateLimits, declared: Route, principal: Principal, answered: dict[str, str]
) -> None:
    """Take one request from what a user or a webhook has left; raises `RateLimited`."""
    try:
        if principal.user_id is not None:
            left = limits.take(principal.org_id, principal.user_id, declared.rate)
        elif principal.source is not None:
            left = limits.take_hook(principal.source.source_id)
        else:
            return
    except RateLimited as error:
        left = Allowance(error.fields["limit"], 0, error.fields["retry_after_seconds"])
        answered |= _said(left)
        raise
    answered |= _said(left)


def _said(left: Allowance) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(left.limit),
        "RateLimit-Remaining": str(left.remaining),
        "RateLimit-Reset": str(left.reset_seconds),
    }


def _response(answer: Answer[Any]) -> Response[str]:
    text = answer.body if isinstance(answer.body, str) else answer.text()
    headers: dict[str, str | list[str]] = {"Cache-Control": "no-store", **answer.headers}
    return Response(answer.status, "application/json", text, headers)
