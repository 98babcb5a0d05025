"""The request: a source, a target, a new shape, and the options of the result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.keys.pojo_formulas import CASE_CLASS, FOLDS, KNOWN_HASH, parse_formula
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.planning.request.result_files import Files, Format
from rescale.planning.request.surgery_request import NO_SURGERY_REQUEST, SurgeryRequest, Values, surgery_from_options
from rescale.runstate.target_safety import refuse_overlap, refuse_place_of_documents
from rescale.snapshot.moves import Move, parse_moves
from rescale.storage.locations import is_s3, normalise, parent, resolve_links
from rescale.storage.sides import is_one_store, refuse_same_place
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, in_option
from rescale.text.names import did_you_mean


@dataclass(frozen=True)
class Request:
    """A parsed request, not yet compared with the snapshot.

    `parallelism` maps an operator (uid or operator id) to its new parallelism; the key "" stands for all other
    operators. `max_parallelism` and `key_hash` are mappings of the same kind; hashes are names of formulas or
    functions. `uids` has (operator id, name) pairs for snapshots that hold only ids.
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
    surgery: SurgeryRequest = NO_SURGERY_REQUEST
    moves: tuple[Move, ...] = ()


_MOST_DIGITS = len(str(UPPER_BOUND_MAX_PARALLELISM))
_COMMENT_PATTERN = re.compile(r"(?:^|\s)#.*")


def request_of_values(source: str, target: str, option_values: Values) -> Request:
    """Return the request with these option values. Raises `RequestError` for an invalid value."""
    return make_request(
        source,
        target,
        option_values["parallelism"],
        max_parallelism=option_values["max-parallelism"],
        key_hash=option_values["key-hash"],
        format=Format(option_values["format"]),
        files=Files(option_values["files"]),
        uids=parse_uids((option_values["uids"] or "").splitlines()),
        allow_prefixes=option_values["allow-prefix"],
        surgery=surgery_from_options(option_values),
        moved=option_values["moved"],
    )


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
    surgery: SurgeryRequest = NO_SURGERY_REQUEST,
    moved: Iterable[str] = (),
) -> Request:
    """Return the request of a command line or a form. Raises `RequestError` for the first invalid value."""
    source, target = normalise(source), target_place(target)
    _refuse_places(source, target, files)
    with in_option("--parallelism"):
        parallelisms = parse_numbers(parallelism, "parallelism")
    with in_option("--max-parallelism"):
        max_parallelisms = parse_numbers(max_parallelism, "max parallelism")
    with in_option("--key-hash"):
        key_hashes = parse_key_hashes(key_hash)
    return Request(
        source,
        target,
        parallelisms,
        max_parallelism=max_parallelisms,
        key_hash=key_hashes,
        format=format,
        files=files,
        uids=tuple(uids),
        allow_prefixes=tuple(map(normalise, allow_prefixes)),
        surgery=surgery,
        moves=parse_moves(moved),
    )


def _refuse_places(source: str, target: str, files: Files) -> None:
    snapshot = source.removesuffix("/_metadata")
    refuse_same_place(snapshot, target)
    refuse_overlap(snapshot, target)
    refuse_place_of_documents(target)
    normalise(resolve_links(target))  # refuses a link to a name that is not UTF-8, which no document can hold
    if files is Files.REFER and is_s3(target) and not is_one_store(source, target):
        raise RequestError(
            f"a result in S3 cannot refer to {'files in another store' if is_s3(source) else 'local files'}",
            path=target,
            expected="a source and a target in the same store, to refer to files",
            found=source,
            advice=Advice("leave ", mention("files"), " out, so that files are copied"),
        )


def target_place(text: str) -> str:
    """Return the normalised path of a target. Raises `RequestError` if a result cannot be written there."""
    target = normalise(text)
    if parent(target) == target:
        raise RequestError(
            "the target must be a directory of its own",
            path=target,
            expected="a directory below a bucket or below the file system's root: Rescale's own files go beside it",
            advice="name a directory that does not exist yet",
        )
    if "\\" in target:
        raise RequestError(
            "Flink would not find the target, because it reads a backslash as a slash",  # `Path.normalizePath`
            path=target,
            expected="a name without a backslash",
            advice="name another target directory",
        )
    return target


def parse_numbers(option_values: Iterable[str], noun: str) -> dict[str, int]:
    """Parse `N` for all operators and `UID=N` for one into a mapping from operator ("" for all) to number.

    `noun` names the option in errors.
    """
    number_by_operator: dict[str, int] = {}
    for value in option_values:
        operator, equals, number = value.rpartition("=")
        _refuse_empty_name(operator, equals, noun, value)
        digits = number.lstrip("0")  # int() refuses thousands of digits, and its error does not help users
        is_number = number.isascii() and number.isdigit() and 1 <= len(digits) <= _MOST_DIGITS
        if not is_number or int(digits) > UPPER_BOUND_MAX_PARALLELISM:
            raise RequestError(
                f"not a {noun}: {value!r}",
                expected=f"N or UID=N, where N is 1 to {UPPER_BOUND_MAX_PARALLELISM}",
                found=number,
            )
        _refuse_second_value(number_by_operator, operator, noun, value)
        number_by_operator[operator] = int(digits)
    return number_by_operator


def parse_key_hashes(option_values: Iterable[str]) -> dict[str, str]:
    """Parse `NAME` for all operators and `UID=NAME` for one into a mapping from operator ("" for all) to name."""
    hash_by_operator: dict[str, str] = {}
    for value in option_values:
        operator, equals, name = value.rpartition("=")
        _refuse_empty_name(operator, equals, "hash of keys", value)
        if ":" not in name and name != KNOWN_HASH and parse_formula(name) is None:
            raise RequestError(
                f"not a hash of keys: {value!r}",
                expected="HASH or UID=HASH, where HASH is a formula such as objects-hash(a,b), or module:function",
                advice=did_you_mean(name.partition("(")[0], FOLDS) or f"formulas are {', '.join((*FOLDS, CASE_CLASS))}",
            )
        _refuse_second_value(hash_by_operator, operator, "hash of keys", value)
        hash_by_operator[operator] = name
    return hash_by_operator


def _refuse_empty_name(operator: str, equals: str, noun: str, value: str) -> None:
    """Refuse `=N`, which a shell makes of `$UID=N` if the variable is not set: it must not mean all operators."""
    if equals and not operator:
        raise RequestError(
            f"the {noun} is given for an operator without a name",
            expected="a uid or an operator id before the =, or only the value, for all operators",
            found=value,
        )


def _refuse_second_value(value_by_operator: Mapping[str, object], operator: str, noun: str, value: str) -> None:
    if operator in value_by_operator:
        owner_text = f"operator {operator!r}" if operator else "all operators"
        raise RequestError(f"the {noun} of {owner_text} is given twice", found=value)


def parse_uids(lines: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return (operator id, name) of every line, which is `uid` or `operator-id name`.

    A `#` that begins a line or follows a space starts a comment; a uid may contain one elsewhere.
    """
    ids_and_names = []
    for line in lines:
        text = _COMMENT_PATTERN.sub("", line).strip()
        first_word, _, name = text.partition(" ")
        if is_operator_id(first_word) and name.strip():
            ids_and_names.append((first_word.lower(), name.strip()))
        elif text:
            ids_and_names.append((operator_id_of_uid(text), text))
    return tuple(ids_and_names)
