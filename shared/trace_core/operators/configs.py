"""The settings of the built-in operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

INT64_MAX = 2**63 - 1

ColumnName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]


class OperatorConfig(BaseModel):
    """Nothing is converted and nothing unknown is accepted: a typo must not become a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RangeAggregatorConfig(OperatorConfig):
    cursor: ColumnName = Field(
        description="The field that orders the input, such as a block number."
    )
    range_size: int = Field(ge=1, le=INT64_MAX, description="How many values one range holds.")
    finality_depth: int = Field(
        default=0,
        ge=0,
        le=INT64_MAX,
        description="A range is announced once the cursor is this far past its end.",
    )


class RangeSplitterConfig(OperatorConfig):
    chunk_size: int = Field(ge=1, le=INT64_MAX, description="How many values one chunk holds.")


class RangeRequestConfig(OperatorConfig):
    """Takes its range from the request."""


class TriggerCronConfig(OperatorConfig):
    catch_up: Literal["latest", "all"] = Field(
        default="latest",
        description="After a pause: fire once, or once for each missed time.",
    )
    max_catch_up: int = Field(
        default=100, ge=1, le=10_000, description="At most this many missed times are fired."
    )


def config_model(kind: type[Any]) -> type[BaseModel]:
    """The model that checks the settings of `kind`: a dataclass whose fields are `setting(…)`s.

    For operators that run where there is no pydantic. Lists are tuples there; what the metadata
    of a field says holds here. What only the settings together rule out, `__post_init__` of the
    dataclass refuses with a `ValueError`, here as well as in the run.
    """
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for each in dataclasses.fields(kind):
        limits = dict(each.metadata)
        annotation = _checked(hints[each.name], limits)
        lengths = {name: limits[name] for name in ("min_length", "max_length") if name in limits}
        given: dict[str, Any] = {"description": limits.get("description"), **lengths}
        if each.default is not dataclasses.MISSING:
            given["default"] = each.default
        elif each.default_factory is not dataclasses.MISSING:
            given["default_factory"] = each.default_factory
        fields[each.name] = (annotation, Field(**given))
    rules = {"together": _together(kind)} if hasattr(kind, "__post_init__") else {}
    return create_model(
        kind.__name__,
        __base__=OperatorConfig,
        __doc__=kind.__doc__,
        __validators__=rules,
        **fields,
    )


def _together(kind: type[Any]) -> Any:
    """Made for its `__post_init__` alone; what is nested has passed its own check by then."""

    def check(model: OperatorConfig) -> OperatorConfig:
        kind(**{each.name: getattr(model, each.name) for each in dataclasses.fields(kind)})
        return model

    return model_validator(mode="after")(check)


def _checked(kind: Any, rules: dict[str, Any]) -> Any:
    """The type, with the rules about single values where single values are."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return Union[tuple(_checked(each, rules) for each in arguments)]  # noqa: UP007
    if origin is tuple:
        return GenericAlias(tuple, (_checked(arguments[0], rules), ...))
    if origin in (dict, Mapping):
        keys = {"pattern": rules["key_pattern"]} if "key_pattern" in rules else {}
        return GenericAlias(dict, (_checked(arguments[0], keys), _checked(arguments[1], rules)))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return config_model(kind)
    if kind is str and "pattern" in rules:
        return Annotated[str, Field(pattern=rules["pattern"])]
    if kind in (int, float):
        bounds = {name: rules[name] for name in ("ge", "le") if name in rules}
        return Annotated[kind, Field(**bounds)] if bounds else kind
    return kind
