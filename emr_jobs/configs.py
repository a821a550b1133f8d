"""The settings of PySpark operators: frozen dataclasses, which run where there is no pydantic.

`trace_core.operators.configs.config_model` makes the model that checks a DAG file from one of them.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

COLUMN_PATTERN = r"^[a-z_][a-z0-9_]{0,62}$"
NAME_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"


def setting(
    default: Any = dataclasses.MISSING,
    *,
    description: str,
    pattern: str | None = None,
    key_pattern: str | None = None,
    ge: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
) -> Any:
    """A field with what its values must be like.

    `pattern`, `ge` and `le` are about the value, or each value of a list or a map; `key_pattern`
    is about the keys of a map; lengths are about the list, the map or the text.
    """
    rules = {
        "description": description,
        "pattern": pattern,
        "key_pattern": key_pattern,
        "ge": ge,
        "le": le,
        "min_length": min_length,
        "max_length": max_length,
    }
    metadata = {name: value for name, value in rules.items() if value is not None}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def config_from(kind: type[T], given: Mapping[str, Any]) -> T:
    """The settings as `kind`, from JSON that was checked when the DAG was deployed.

    Raises `ValueError` for what `kind` does not know: the code is then of another release.
    """
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no dataclass")
    hints = get_type_hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"there is no setting {', '.join(unknown)}")
    missing = [
        name
        for name, field in known.items()
        if name not in given
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"the setting {', '.join(missing)} is missing")
    return kind(**{name: _value(hints[name], value) for name, value in given.items()})


def _value(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _value(next(each for each in arguments if each is not type(None)), value)
    if origin is tuple:
        return tuple(_value(arguments[0], each) for each in value)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {key: _value(arguments[1], each) for key, each in value.items()}
    if origin is Literal:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return config_from(kind, value)
    return value
