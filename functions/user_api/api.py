"""The one API object on which the modules beside this one register their routes."""

from __future__ import annotations

from trace_core import bootstrap
from trace_core.http.api import Api, Request
from trace_core.http.routes import Surface
from trace_core.telemetry import Telemetry

telemetry = Telemetry("user_api")
api = Api(Surface.USER, bootstrap.app, telemetry)
Call = Request[bootstrap.App]
