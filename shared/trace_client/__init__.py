"""A client of the user API: one method for each route, answers as models, pages as iterators."""

from trace_client.client import Client
from trace_client.errors import ApiError
from trace_client.pages import each_page
from trace_client.transport import HttpTransport, Transport

__all__ = ["ApiError", "Client", "HttpTransport", "Transport", "each_page"]
