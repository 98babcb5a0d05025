"""What a user asks for: a source, a target and a new shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rescale.errors import RequestError
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.flink.serializers.formulas import CASE_CLASS, FOLDS, KNOWN, parse_formula
from rescale.names import did_you_mean
from rescale.planning.asked.surgery_words import NO_SURGERY_WORDS, SurgeryWords
from rescale.storage.locations import contains, is_s3, normalise, parent, real


class Format(StrEnum):
    """The kind of keyed state that the result shall have."""

    KEEP = "keep"
    """The source's."""

    CANONICAL = "canonical"
    """The one that every state backend but ForSt restores."""

    ROCKSDB = "rocksdb"
    """RocksDB's own, which the RocksDB state backend opens as it is."""


class Files(StrEnum):
    """What becomes of the files of RocksDB directories that the result needs as they are."""

    COPY = "copy"
    """They are copied: the result stands alone."""

    REFER = "refer"
    """They stay where they are, and the result refers to them: the source must stay, too."""


@dataclass(frozen=True)
class Request:
    """`parallelism` maps an operator (uid or operator id) to its new parallelism; "" stands for all others.

    `max_parallelism` and `key_hash` (how keys hash, by the name of a formula or of a function) are alike. `uids` maps
    operator ids to the names that the user knows them by, for snapshots that hold only ids.
    """

    source: str
    target: str
    parallelism: dict[str, int]
    allow_prefixes: tuple[str, ...] = ()
    uids: tuple[tuple[str, str], ...] = ()
    max_parallelism: dict[str, int] = field(default_factory=dict)
    key_hash: dict[str, str] = field(default_factory=dict)
    format: Format = Format.KEEP
    files: Files = Files.COPY
    surgery: SurgeryWords = NO_SURGERY_WORDS


_MOST_DIGITS = len(str(UPPER_BOUND_MAX_PARALLELISM))


def make_request(
    source: str,
    target: str,
    parallelism: Iterable[str] = (),
    *,
    max_parallelism: Iterable[str] = (),
    key_hash: Iterable[str] = (),
    format: Format = Format.KEEP,  # noqa: A002
    files: Files = Files.COPY,
    uids: Iterable[tuple[str, str]] = (),
    allow_prefixes: Iterable[str] = (),
    surgery: SurgeryWords = NO_SURGERY_WORDS,
) -> Request:
    """The request that the words of a command line or of a form stand for; `RequestError` names the wrong one."""
    source, target = normalise(source), target_place(target)
    _refuse_places(source, target, files)
    return Request(
        source,
        target,
        parse_numbers(parallelism, "parallelism"),
        max_parallelism=parse_numbers(max_parallelism, "max parallelism"),
        key_hash=parse_key_hashes(key_hash),
        format=format,
        files=files,
        uids=tuple(uids),
        allow_prefixes=tuple(map(normalise, allow_prefixes)),
        surgery=surgery,
    )


def _refuse_places(source: str, target: str, files: Files) -> None:
    snapshot = source.removesuffix("/_metadata")
    ours = [real(target), beside(target)]
    if any(contains(real(snapshot), place) or contains(place, real(snapshot)) for place in ours):
        raise RequestError(
            "the target must not lie inside the source, nor around it",
            path=target,
            expected=f"{target} and {beside(target)} apart from {snapshot}",
            advice="name another target directory",
        )
    if files is Files.REFER and is_s3(target) and not is_s3(source):
        raise RequestError(
            "a result in S3 cannot refer to local files",
            path=target,
            expected="source and target in the same file system, to refer to files",
            found=source,
            advice="leave --files out: files are copied then",
        )


def target_place(text: str) -> str:
    """The one spelling of a target; `RequestError` if it cannot be one."""
    target = normalise(text)
    if parent(target) == target:
        raise RequestError(
            "the target must be a directory of its own",
            path=target,
            expected="a directory below a bucket or the file system's root: what is ours lies beside it",
            advice="name a directory that does not exist yet",
        )
    if "\\" in target:
        raise RequestError(
            "Flink would not find the target: a backslash is a slash to it",  # `Path.normalizePath`
            path=target,
            expected="a name without a backslash",
            advice="name another target directory",
        )
    return target


def beside(target: str) -> str:
    """The directory beside a target that belongs to it, for what is ours: plan, claim, certificate.

    Of a target that is reached by a symbolic link it lies beside where that leads: one target has one claim.
    """
    return f"{real(target)}.rescale"


def parse_numbers(words: Iterable[str], what: str) -> dict[str, int]:
    """`N` for all, `UID=N` for one operator, as a mapping from operator ("" for all) to number."""
    numbers: dict[str, int] = {}
    for word in words:
        operator, equals, number = word.rpartition("=")
        _refuse_nobody(operator, equals, what, word)
        digits = number.lstrip("0")  # of a number with thousands of them Python says nothing but that there are many
        is_number = number.isascii() and number.isdigit() and 1 <= len(digits) <= _MOST_DIGITS
        if not is_number or int(digits) > UPPER_BOUND_MAX_PARALLELISM:
            raise RequestError(
                f"not a {what}: {word!r}",
                expected=f"N or UID=N, where N is 1 to {UPPER_BOUND_MAX_PARALLELISM}",
                found=number,
            )
        _refuse_twice(numbers, operator, what, word)
        numbers[operator] = int(digits)
    return numbers


def parse_key_hashes(words: Iterable[str]) -> dict[str, str]:
    """`NAME` for all, `UID=NAME` for one operator, as a mapping from operator ("" for all) to name."""
    names: dict[str, str] = {}
    for word in words:
        operator, equals, name = word.rpartition("=")
        _refuse_nobody(operator, equals, "hash of keys", word)
        if ":" not in name and name != KNOWN and parse_formula(name) is None:
            raise RequestError(
                f"not a hash of keys: {word!r}",
                expected="HASH or UID=HASH, where HASH is a formula such as objects-hash(a,b), or module:function",
                advice=did_you_mean(name.partition("(")[0], FOLDS) or f"formulas are {', '.join((*FOLDS, CASE_CLASS))}",
            )
        _refuse_twice(names, operator, "hash of keys", word)
        names[operator] = name
    return names


def _refuse_nobody(operator: str, equals: str, what: str, word: str) -> None:
    """`=N` is what a shell makes of a variable that is not set, and does not stand for all operators."""
    if equals and not operator:
        raise RequestError(
            f"the {what} is asked for an operator without a name",
            expected="a uid or an operator id before the =, or the value alone, for all operators",
            found=word,
        )


def _refuse_twice(given: Mapping[str, object], operator: str, what: str, word: str) -> None:
    if operator in given:
        whose = f"operator {operator!r}" if operator else "all operators"
        raise RequestError(f"the {what} of {whose} is given twice", found=word)


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
