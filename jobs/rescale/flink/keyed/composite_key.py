"""Composite keys of records (`SerializedCompositeKeyBuilder`): the end of the key, and its hash.

    key  [ length of key ]  namespace  [ length of namespace ]  [ user key of a map ]

The lengths are present only if neither the key nor the namespace has a fixed length
(`CompositeKeySerializationUtils.isAmbiguousKeyPossible`). They are little-endian, in as few bytes as possible. A timer
(`TimerSerializer`) has eight bytes of time in front, and never lengths.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.advice import DIVISORS_NEED_NO_HASH
from rescale.flink.arrays import Bytes, Flags, HashCodes, Longs
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.namespaces import namespace_serializer
from rescale.flink.keyed.timers.heap_timers import TIME_SIZE
from rescale.flink.keys.java_hash import walk_keys
from rescale.flink.keys.key_function import FunctionHash, is_function_name
from rescale.flink.keys.key_hash import named_hash
from rescale.flink.serializers.program import Program, compile_if_known
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.type_tree import Fixed
from rescale.flink.state_meta_info import StateKind
from rescale.text.errors import IntegrityError, UnsupportedError

_NO_LIMIT = np.iinfo(np.int64).max
_MOST_KEY_BYTES_SHOWN = 64


class CompositeKeys:
    """Finds the ends of the keys of a keyed backend, and hashes the keys.

    `program` belongs to the key serializer: it finds the end of a key, and hashes the key unless `function` does. The
    namespace after a key is checked as far as its serializer is known, so a wrong end is noticed. Without a program, a
    key ends where a namespace of fixed size begins.
    """

    def __init__(self, header: KeyedHeader, program: Program | None, function: FunctionHash | None = None) -> None:
        self._key_program = program
        self._function = function
        self._key_type = type_name(header.key_serializer)
        self._state_names = header.names
        self._key_offsets = key_offsets(header)
        self._min_tail_sizes = np.zeros(len(header.states), np.int64)
        self._max_tail_sizes = np.full(len(header.states), _NO_LIMIT, np.int64)
        self._namespace_programs: dict[int, Program] = {}
        for state_id, state in enumerate(header.states):
            namespace = compile_if_known(namespace_serializer(state))
            if namespace is None:
                continue
            if isinstance(namespace.tree, Fixed):
                self._min_tail_sizes[state_id] = namespace.tree.size
                self._max_tail_sizes[state_id] = _NO_LIMIT if state.state_type == "MAP" else namespace.tree.size
            else:
                self._namespace_programs[state_id] = namespace
        self._map_ids = {state_id for state_id, state in enumerate(header.states) if state.state_type == "MAP"}

    def hash(self, records: Records) -> HashCodes:
        """Return the `hashCode` of each record's key (int32).

        Raises `IntegrityError`, which names the record, for bytes that are not a key and a namespace.
        """
        starts = records.key_starts + self._key_offsets[records.state_ids]
        if self._key_program is None:
            ends, hash_codes = self._ends_before_namespace(records, starts), None
        else:
            walked_keys = walk_keys(self._key_program, records.data, starts, records.key_ends)
            first_error = walked_keys.first_error()
            if first_error is not None:
                raise self.key_group_error(
                    records, first_error[0], f"a key cannot be read as a {self._key_program.name}", first_error[1]
                )
            ends, hash_codes = walked_keys.ends, walked_keys.hash_codes
            self._check_tails(records, starts, ends, self._key_program)
        if self._function is not None:
            return self._function.hash_codes(records.data, starts, ends)
        if hash_codes is None:
            raise ValueError("the hash of the keys is unknown")
        return hash_codes

    def check_ends(self, state_ids: Longs) -> None:
        """Raise `UnsupportedError` if the end of the keys is unknown in records of the states `state_ids`."""
        is_unknown = (self._min_tail_sizes != self._max_tail_sizes)[state_ids]
        if self._key_program is None and is_unknown.any():
            raise UnsupportedError(
                "the end of the keys is unknown: neither the key nor the namespace after it has a known size",
                state=self._state_names[state_ids[int(np.argmax(is_unknown))]],
                found=f"keys of the type {self._key_type}",
                advice=DIVISORS_NEED_NO_HASH,
            )

    def key_group_error(
        self, records: Records, index: int, what: str, actual: str | None, **details: object
    ) -> IntegrityError:
        """Return an error that names a record by its state, its key group and the bytes of its key."""
        key = records.data[records.key_starts[index] : records.key_ends[index]]
        key_text = key[:_MOST_KEY_BYTES_SHOWN].tobytes().hex() + ("…" if len(key) > _MOST_KEY_BYTES_SHOWN else "")
        return IntegrityError(
            f"{what}: key bytes {key_text} in key group {records.groups[index]}",
            state=self._state_names[records.state_ids[index]],
            found=actual,
            **details,  # type: ignore[arg-type]
        )

    def _ends_before_namespace(self, records: Records, starts: Longs) -> Longs:
        self.check_ends(records.state_ids)
        ends: Longs = records.key_ends - self._min_tail_sizes[records.state_ids]
        is_wrong = ends < starts
        if is_wrong.any():
            raise self.key_group_error(records, int(np.argmax(is_wrong)), "a record without a key", None)
        return ends

    def _check_tails(self, records: Records, starts: Longs, ends: Longs, program: Program) -> None:
        """Raise `IntegrityError` unless a valid tail (all bytes of a composite key after the key) follows each key."""
        tail_sizes = records.key_ends - ends
        is_wrong = (tail_sizes < self._min_tail_sizes[records.state_ids]) | (
            tail_sizes > self._max_tail_sizes[records.state_ids]
        )
        for state_id, namespace in self._namespace_programs.items():
            indices = np.flatnonzero(records.state_ids == state_id)
            is_timer = bool(self._key_offsets[state_id])
            has_lengths = not is_timer and program.fixed_length is None and namespace.fixed_length is None
            fits = self._namespaces_fit(
                records, indices, starts, ends, namespace, has_lengths, state_id in self._map_ids
            )
            is_wrong[indices[~fits]] = True
        if is_wrong.any():
            raise self.key_group_error(records, int(np.argmax(is_wrong)), "no valid namespace follows a key", None)

    @staticmethod
    def _namespaces_fit(
        records: Records,
        indices: Longs,
        starts: Longs,
        ends: Longs,
        namespace: Program,
        has_lengths: bool,
        is_map: bool,
    ) -> Flags:
        """Return whether a valid namespace of variable size follows each chosen key.

        If `has_lengths`, each key and each namespace must be followed by its own length in bytes.
        """
        namespace_begins, composite_ends = ends[indices], records.key_ends[indices]
        fits = np.ones(len(indices), np.bool_)
        if has_lengths:
            namespace_begins, fits = _ends_of_lengths(
                records.data, namespace_begins, composite_ends, namespace_begins - starts[indices]
            )
        walked_namespaces = walk_keys(
            namespace, records.data, np.minimum(namespace_begins, composite_ends), composite_ends
        )
        fits &= walked_namespaces.error_codes == 0
        namespace_ends = walked_namespaces.ends
        if has_lengths:
            namespace_ends, fits_length = _ends_of_lengths(
                records.data, namespace_ends, composite_ends, namespace_ends - namespace_begins
            )
            fits &= fits_length
        return fits & ((namespace_ends <= composite_ends) if is_map else (namespace_ends == composite_ends))


def composite_keys(header: KeyedHeader, key_hash: str) -> CompositeKeys:
    """Return the object that finds and hashes the keys of a backend; `key_hash` is the name of the hash in a plan.

    Raises the errors of `FunctionHash.load` and `named_hash`.
    """
    if is_function_name(key_hash):
        return CompositeKeys(header, compile_if_known(header.key_serializer), FunctionHash.load(key_hash))
    return CompositeKeys(header, named_hash(header.key_serializer, key_hash).program)


def check_key_ends(header: KeyedHeader) -> None:
    """Raise `UnsupportedError` if the ends of the keys of a backend are unknown, so that no function can hash them."""
    CompositeKeys(header, compile_if_known(header.key_serializer)).check_ends(np.arange(len(header.states)))


def key_offsets(header: KeyedHeader) -> Longs:
    """Return the offset of the key in a composite key without its key group, by state id: 8 for timers, 0 otherwise."""
    return np.array([TIME_SIZE if s.kind is StateKind.PRIORITY_QUEUE else 0 for s in header.states], np.int64)


def _ends_of_lengths(data: Bytes, begins: Longs, limits: Longs, lengths: Longs) -> tuple[Longs, Flags]:
    """Return where each of `lengths` would end if encoded at `begins`, and whether the bytes at `begins` encode it."""
    ends, remaining = begins.copy(), lengths.copy()
    fits = np.ones(len(ends), np.bool_)
    is_unfinished = fits.copy()
    while is_unfinished.any():
        is_within = ends < limits
        fits &= ~is_unfinished | is_within & (data[np.where(is_within, ends, 0)] == remaining & 0xFF)
        ends[is_unfinished] += 1
        remaining[is_unfinished] >>= 8
        is_unfinished &= remaining > 0
    return ends, fits
