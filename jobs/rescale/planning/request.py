"""What a user asks for: a source, a target and a new shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rescale.errors import RequestError
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.storage.locations import contains, normalise, parent


@dataclass(frozen=True)
class Request:
    """`parallelism` maps an operator (uid or operator id) to its new parallelism; "" stands for all others.

    `uids` maps operator ids to the names that the user knows them by, for snapshots that hold only ids.
    """

    source: str
    target: str
    parallelism: dict[str, int]
    allow_prefixes: tuple[str, ...] = ()
    uids: tuple[tuple[str, str], ...] = ()


def make_request(
    source: str,
    target: str,
    parallelism: Iterable[str] = (),
    allow_prefixes: Sequence[str] = (),
    uids: Sequence[tuple[str, str]] = (),
) -> Request:
    """The request that the words of a command line or of a form stand for; `RequestError` names the wrong one."""
    source, target = normalise(source), normalise(target)
    if parent(target) == target:
        raise RequestError(
            "the target must be a directory of its own",
            path=target,
            expected="a directory below a bucket or the file system's root: what is ours lies beside it",
            advice="name a directory that does not exist yet",
        )
    snapshot = source.removesuffix("/_metadata")
    if contains(snapshot, target) or contains(target, snapshot):
        raise RequestError(
            "the target must not lie inside the source, nor around it",
            path=target,
            expected=f"a directory apart from {snapshot}",
            advice="name another target directory",
        )
    return Request(source, target, parse_parallelism(parallelism), tuple(map(normalise, allow_prefixes)), tuple(uids))


def parse_parallelism(words: Iterable[str]) -> dict[str, int]:
    """`N` for all, `UID=N` for one operator, as a mapping from operator ("" for all) to parallelism."""
    shape: dict[str, int] = {}
    for word in words:
        operator, _, number = word.rpartition("=")
        if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= UPPER_BOUND_MAX_PARALLELISM:
            raise RequestError(
                f"not a parallelism: {word!r}",
                expected=f"N or UID=N, where N is 1 to {UPPER_BOUND_MAX_PARALLELISM}",
                found=number,
            )
        if operator in shape:
            whose = f"operator {operator!r}" if operator else "all operators"
            raise RequestError(f"the parallelism of {whose} is given twice", found=word)
        shape[operator] = int(number)
    return shape


def read_uids(path: str) -> tuple[tuple[str, str], ...]:
    """(operator id, name) of every line of a text file, as `parse_uids` reads them."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise RequestError(f"the list of uids cannot be read: {error}", path=path) from None
    return parse_uids(lines)


def parse_uids(lines: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(operator id, name) of every line `uid` or `operator-id name`; `#` starts a comment."""
    entries = []
    for line in lines:
        text = line.partition("#")[0].strip()
        first, _, rest = text.partition(" ")
        if is_operator_id(first) and rest.strip():
            entries.append((first.lower(), rest.strip()))
        elif text:
            entries.append((operator_id_of_uid(text), text))
    return tuple(entries)
