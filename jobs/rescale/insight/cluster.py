"""A cluster on paper: what a run would have there, said in words such as `executors=40 cores=8 bandwidth=1.2GB`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rescale.errors import RequestError

VARIABLE = "RESCALE_CLUSTER"
"""Of the environment: the words for the cluster that runs have, where somebody has set it up."""

_WHERE_IT_STANDS = f"change the option of that name, or the variable {VARIABLE}, such as 'executors=40 cores=8'"

_UNITS = {"": 1, **{letter: 1000**i for i, letter in enumerate("kMGTPE", 1)}}
_UNITS |= {f"{letter}i": 1024**i for i, letter in enumerate("KMGTPE", 1)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMGTPE]|[KMGTPE]i|)B?(?:/s)?")


@dataclass(frozen=True)
class Prices:
    """Dollars for a thousand requests to S3 that write or list, and that read."""

    writes: float
    reads: float


AMAZON = Prices(writes=0.005, reads=0.0004)
"""S3 Standard in us-east-1 (https://aws.amazon.com/s3/pricing, Requests & data retrievals)."""


@dataclass(frozen=True)
class Cluster:
    """So many executors of so many cores, each with `bandwidth` bytes a second to all else, either way.

    `scratch` is the room that each has on its disk, `driver_memory` that of the driver's pod, in bytes; None where
    nobody said it. Without an executor's bandwidth it is that of 5 Gbit/s.
    """

    executors: int = 4
    cores: int = 2
    bandwidth: int = 625_000_000
    scratch: int | None = None
    driver_memory: int | None = None
    prices: Prices = AMAZON

    @property
    def slots(self) -> int:
        """Tasks that run at once."""
        return self.executors * self.cores


def cluster_of(words: Mapping[str, str | None]) -> Cluster | None:
    """From values by name, in which None stands for what was not said; None if nothing was. `RequestError`."""
    said = {name: value for name, value in words.items() if value is not None}
    if not said:
        return None
    unknown = sorted(said.keys() - _READ.keys())
    if unknown:
        raise RequestError(
            "a cluster has no such thing", expected=", ".join(_READ), found=", ".join(unknown), advice=_WHERE_IT_STANDS
        )
    read: dict[str, Any] = {name.replace("-", "_"): _READ[name](name, value) for name, value in said.items()}
    return Cluster(**read)


def words_of(text: str) -> dict[str, str]:
    """`executors=40 cores=8` by name; `RequestError` for a word that says nothing, or what another one has said."""
    words: dict[str, str] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if not name or not value:
            raise RequestError(
                "a word about the cluster says nothing", expected="NAME=VALUE", found=word, advice=_WHERE_IT_STANDS
            )
        if name in words:
            raise RequestError(f"{name} of the cluster is given twice", found=text, advice=_WHERE_IT_STANDS)
        words[name] = value
    return words


def cluster_of_environment(
    environment: Mapping[str, str], words: Mapping[str, str | None] = MappingProxyType({})
) -> Cluster | None:
    """What `VARIABLE` says of it; `words` go before that."""
    said = {name: value for name, value in words.items() if value is not None}
    return cluster_of({**words_of(environment.get(VARIABLE, "")), **said})


_MOST_DIGITS = 20
"""Of no cluster is there more to say, and Python reads no number with thousands of them."""

_MOST_DOLLARS = 1_000_000
"""For a thousand requests."""


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS or not int(text):
        raise _misread(name, "a number, 1 or more", text)
    return int(text)


def _size(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None or len(found[1]) > _MOST_DIGITS or not float(found[1]):
        raise _misread(name, "a size such as 1.2GB or 20Gi", text)
    return int(float(found[1]) * _UNITS[found[2]])


def _prices(name: str, text: str) -> Prices:
    try:
        dollars = [float(word) for word in text.split(",")]
    except ValueError:
        dollars = []
    if len(dollars) != 2 or not all(0 <= one <= _MOST_DOLLARS for one in dollars):  # "nan" is a number to Python
        raise _misread(name, "dollars for a thousand requests that write, and that read, such as 0.005,0.0004", text)
    return Prices(writes=dollars[0], reads=dollars[1])


def _misread(name: str, expected: str, text: str) -> RequestError:
    return RequestError(
        f"the value of {name} of the cluster cannot be read", expected=expected, found=text, advice=_WHERE_IT_STANDS
    )


_READ: dict[str, Callable[[str, str], Any]] = {
    "executors": _number,
    "cores": _number,
    "bandwidth": _size,
    "scratch": _size,
    "driver-memory": _size,
    "prices": _prices,
}
