"""Chooses a key hash for each operator whose records are read.

The hash of Java's and Flink's own types is known. For a user's class, formulas are tried on a sample of its keys: the
right formula yields the key group that each key lies in. Instead, the user may name a formula or a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rescale.flink.advice import DIVISORS_NEED_NO_HASH
from rescale.flink.keyed.composite_key import check_key_ends
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keys.key_function import is_function_name
from rescale.flink.keys.key_hash import choose_hash, count_distinct_keys, known_hash, named_hash
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.plan.work_class import WorkClass, work_class
from rescale.planning.request.operator_shapes import by_operator
from rescale.snapshot.key_sample import sample_keys
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import RequestError, UnsupportedError, located

InferHash = Callable[[Snapshot, Operator, SerializerSnapshot], str | None]
"""A function that infers a key hash from a sample of an operator's keys; the last argument is the keys' serializer."""


def _infer_hash_from_sample(snapshot: Snapshot, operator: Operator, serializer: SerializerSnapshot) -> str:
    sample = sample_keys(operator, snapshot.contents)
    return choose_hash(serializer, *sample, operator.entry.max_parallelism).name


def choose_key_hashes(
    snapshot: Snapshot,
    new_max_parallelisms: Mapping[str, int],
    requested_hashes: Mapping[str, str],
    infer_hash: InferHash = _infer_hash_from_sample,
) -> dict[str, str]:
    """Return the names of the chosen key hashes, by operator id; operators that need no hash may lack one.

    `new_max_parallelisms` has the operators whose records are read, by id. `requested_hashes` has the request's hashes
    by operator; the key "" is for all operators whose hash is unknown. Raises `UnsupportedError` if a hash is needed
    and unknown.
    """
    requested_by_id = by_operator(snapshot.operators, requested_hashes)
    chosen_hashes = {}
    for operator in snapshot.operators:
        operator_id = operator.entry.operator_id
        if not operator.keyed_headers or operator_id not in new_max_parallelisms:
            continue
        work = work_class(operator.entry.max_parallelism, new_max_parallelisms[operator_id])
        with located(operator=operator.label):
            header = operator.keyed_headers[0]
            if header is not None and operator.max_parallelism == 1 and work is WorkClass.REHASH:
                _refuse_one_key(snapshot, operator, header.key_serializer)
            name = _hash_name_without_keys(header, work, requested_by_id.get(operator_id), requested_hashes.get(""))
            if name is not None or work is WorkClass.REHASH:
                # Checked before `infer_hash`, whose error advises a key function: without the ends of keys, none helps.
                _check_key_ends(operator)
            if name is None and header is not None and work is WorkClass.REHASH:
                name = infer_hash(snapshot, operator, header.key_serializer)
            if name is not None:
                chosen_hashes[operator_id] = name
    return chosen_hashes


def _hash_name_without_keys(
    header: KeyedHeader | None, work: WorkClass, requested_name: str | None, name_for_others: str | None
) -> str | None:
    """Return the name of the hash if it is known without reading keys; None if it is unknown or not needed."""
    if header is None:
        if work is not WorkClass.REHASH and requested_name is None:
            return None
        raise UnsupportedError("the serializer of the keys, or of a state, is not known", advice=DIVISORS_NEED_NO_HASH)
    key_hash = known_hash(header.key_serializer)
    name = requested_name or (name_for_others if key_hash is None else None)
    if name is not None:
        return name if is_function_name(name) else named_hash(header.key_serializer, name).name
    return None if key_hash is None else key_hash.name


def _refuse_one_key(snapshot: Snapshot, operator: Operator, serializer: SerializerSnapshot) -> None:
    """Raise `RequestError` if all keys of a sample are equal, as in `windowAll` and SQL singletons.

    Their key is that of `NullByteKeySelector`, or the empty row of `EmptyRowDataKeySelector`.
    """
    sample = sample_keys(operator, snapshot.contents)
    if count_distinct_keys(serializer, sample.data, sample.starts, sample.limits) == 1:
        raise RequestError(
            "this operator can probably only run with one subtask, because all of its keys are equal",
            expected="at least two different keys, to change max parallelism 1",
            found=f"one key in {len(sample.starts)} records",
            advice="leave the operator out of the request",
        )


def _check_key_ends(operator: Operator) -> None:
    """Raise `UnsupportedError` if it is unknown where keys end in some state of the operator.

    States that are left out count, too, because validation reads their records.
    """
    for header in dict.fromkeys(operator.parsed_headers):
        check_key_ends(header)
