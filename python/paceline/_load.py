"""JSON of the program as dataclasses."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def load(kind: type[T], value: object) -> T:
    """The value as `kind`, a dataclass of `paceline.reports`. Fields that it does not know are left out: later versions of
    Paceline add some.
    """
    return typing.cast(T, _load(kind, value))


def _load(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        # Unions in reports are of one type and null.
        return None if value is None else _load(next(one for one in typing.get_args(kind) if one is not type(None)), value)
    if origin is list:
        (item,) = typing.get_args(kind)
        return [_load(item, one) for one in value]
    if origin is dict:
        _, item = typing.get_args(kind)
        return {name: _load(item, one) for name, one in value.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _load(of, value[name]) for name, of in _fields(kind).items() if name in value})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    return float(value) if kind is float else value


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
