"""A cluster for estimates: the resources that a run would have, written as `executors=40 cores=8 bandwidth=1.2GB`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rescale.text.errors import RequestError

CLUSTER_VARIABLE = "RESCALE_CLUSTER"
"""Environment variable that describes the cluster on which runs take place."""

_ADVICE = f"correct the option of that name, or the variable {CLUSTER_VARIABLE} (for example 'executors=40 cores=8')"

_FACTOR_BY_PREFIX = {"": 1, **{letter: 1000**i for i, letter in enumerate("kMGTPE", 1)}}
_FACTOR_BY_PREFIX |= {f"{letter}i": 1024**i for i, letter in enumerate("KMGTPE", 1)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMGTPE]|[KMGTPE]i|)B?(?:/s)?")


@dataclass(frozen=True)
class Cluster:
    """Spark executors: their number, and the `cores` and the `bandwidth` of one (bytes per second, in each direction).

    `scratch` is the disk space of an executor and `driver_memory` the memory of the driver's pod, in bytes; None if
    unknown.
    """

    executors: int = 4
    cores: int = 2
    bandwidth: int = 625_000_000
    scratch: int | None = None
    driver_memory: int | None = None

    @property
    def slots(self) -> int:
        """Number of tasks that run at once."""
        return self.executors * self.cores


def _parse_description(text: str) -> dict[str, str]:
    """Return the values of a text like `executors=40 cores=8` by name.

    Raises `RequestError` if a value is missing or given twice.
    """
    value_by_name: dict[str, str] = {}
    for entry in text.split():
        name, _, value = entry.partition("=")
        if not name or not value:
            raise RequestError(
                "an entry of the cluster's description is not NAME=VALUE",
                expected="NAME=VALUE",
                found=entry,
                advice=_ADVICE,
            )
        if name in value_by_name:
            raise RequestError(f"{name} of the cluster is given twice", found=text, advice=_ADVICE)
        value_by_name[name] = value
    return value_by_name


def cluster_of_environment(
    environment: Mapping[str, str], overriding_values: Mapping[str, str | None] = MappingProxyType({})
) -> Cluster | None:
    """Return the cluster that `CLUSTER_VARIABLE` and `overriding_values` describe; None if both are empty.

    `overriding_values` that are not None take precedence over values of the variable. Raises `RequestError` for an
    unknown name or a value that cannot be read.
    """
    given_values = _parse_description(environment.get(CLUSTER_VARIABLE, ""))
    given_values |= {name: value for name, value in overriding_values.items() if value is not None}
    if not given_values:
        return None
    unknown_names = sorted(given_values.keys() - _PARSER_BY_NAME.keys())
    if unknown_names:
        raise RequestError(
            "the cluster's description has an unknown name",
            expected=", ".join(_PARSER_BY_NAME),
            found=", ".join(unknown_names),
            advice=_ADVICE,
        )
    parsed_values: dict[str, Any] = {
        name.replace("-", "_"): _PARSER_BY_NAME[name](name, value) for name, value in given_values.items()
    }
    return Cluster(**parsed_values)


_MOST_DIGITS = 20
"""Numbers with more digits are refused: Python refuses to convert numbers with thousands of digits."""


def _parse_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS or not int(text):
        raise _invalid_cluster_error(name, "a number, 1 or more", text)
    return int(text)


def _parse_size(name: str, text: str) -> int:
    size = bytes_of(text)
    if size is None:
        raise _invalid_cluster_error(name, "a size such as 1.2GB or 20Gi", text)
    return size


def bytes_of(text: str) -> int | None:
    """Return the bytes of a size such as 1.2GB or 20Gi; None if the text is not a size, or the size is below a byte."""
    match = _SIZE.fullmatch(text)
    if match is None or len(match[1]) > _MOST_DIGITS:
        return None
    return int(float(match[1]) * _FACTOR_BY_PREFIX[match[2]]) or None


def rate_of(text: str, option_name: str) -> int:
    """Return the bytes per second of a rate such as 500MB/s.

    Raises `RequestError`, which names the option, if the text is not a rate.
    """
    bytes_per_second = bytes_of(text.removesuffix("/s"))
    if bytes_per_second is None:
        raise RequestError(
            "this is not a rate", option=option_name, expected="bytes per second, such as 500MB/s", found=text
        )
    return bytes_per_second


def _invalid_cluster_error(name: str, expected: str, text: str) -> RequestError:
    return RequestError(
        f"the value of {name} of the cluster cannot be read", expected=expected, found=text, advice=_ADVICE
    )


_PARSER_BY_NAME: dict[str, Callable[[str, str], Any]] = {
    "executors": _parse_number,
    "cores": _parse_number,
    "bandwidth": _parse_size,
    "scratch": _parse_size,
    "driver-memory": _parse_size,
}
