"""Request bodies: JSON of a known form and size, holding nothing that Postgres cannot store."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid, Rejected, TooLarge

Model = TypeVar("Model", bound=BaseModel)

PROBLEMS_MAX = 20
# What may stand for a NUL, a NaN or an infinity. A hit only means a closer look.
_SUSPICIOUS = re.compile(rb"\\u0000|NaN|Infinity|[eE]\+?[0-9]{3}|[0-9]{309}")


class NotJson(Rejected):
    """The body must be JSON, sent as application/json."""

    code = "NotJson"
    status = 415


def body_of(event: Mapping[str, Any]) -> bytes:
    """The bytes that were sent; raises TooLarge."""
    text = event.get("body") or ""
    if event.get("isBase64Encoded"):
        # Four characters hold three bytes: refuse before decoding.
        if len(text) > (limits.REQUEST_BODY_MAX // 3 + 1) * 4:
            raise TooLarge(limit=limits.REQUEST_BODY_MAX)
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Invalid("The body is not valid base64.") from None
    else:
        data = text.encode("utf-8", "surrogatepass")
    if len(data) > limits.REQUEST_BODY_MAX:
        raise TooLarge(limit=limits.REQUEST_BODY_MAX)
    return data


def parse(model: type[Model], data: bytes, content_type: str) -> Model:
    """The body as a model; raises Invalid with the fields, never with their values."""
    require_json(content_type)
    try:
        parsed = model.model_validate_json(data)
    except ValidationError as error:
        raise invalid(error) from None
    if _SUSPICIOUS.search(data):
        require_storable(from_json(data))
    return parsed


def parse_value(adapter: TypeAdapter[Any], values: Mapping[str, str]) -> Any:
    """Query or path parameters, which arrive as text."""
    for value in values.values():
        require_storable(value)
    try:
        return adapter.validate_python(dict(values))
    except ValidationError as error:
        raise invalid(error) from None


def has_field(data: bytes, name: str) -> bool:
    """Whether the body is an object with that field at its top."""
    if f'"{name}"'.encode() not in data:
        return False
    try:
        content = from_json(data)
    except ValueError:
        return False
    return isinstance(content, dict) and name in content


def require_json(content_type: str) -> None:
    if content_type.split(";", 1)[0].strip().lower() != "application/json":
        raise NotJson


def invalid(error: ValidationError) -> Invalid:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [
        {"field": ".".join(str(step)[:100] for step in each["loc"][:10]), "reason": each["msg"]}
        for each in found[:PROBLEMS_MAX]
    ]
    return Invalid(problems=problems, more=len(found) - PROBLEMS_MAX if len(found) > 20 else None)


def require_storable(value: object) -> None:
    """Postgres has no NUL in text and JSON has no NaN, however they were spelled."""
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if "\0" in each or any("\ud800" <= character <= "\udfff" for character in each):
                raise Invalid("The request holds a character that cannot be stored.")
        elif isinstance(each, float):
            if not math.isfinite(each):
                raise Invalid("The request holds a number that cannot be stored.")
        elif isinstance(each, dict):
            waiting.extend(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
