"""Hash of an operator's keys: defined by classes of Flink or the JDK, or a formula that is found by testing keys.

Every key lies in the key group of its hash, so each key tests a formula: a wrong formula fits a key with a probability
of 1 / `max_parallelism`. A formula that fits is *tested, not known*. The tested keys may lack rare cases, such as a
null field, so every record is tested again when it is moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

import numpy as np

from rescale.flink.arrays import Bytes, HashCodes, Longs
from rescale.flink.keys.java_hash import ERROR_TEXTS, SUBCLASS, key_groups_of_hashes, walk_keys
from rescale.flink.keys.pojo_formulas import (
    CASE_CLASS,
    FOLDS,
    KNOWN_HASH,
    ClassWithHashCode,
    Formula,
    apply_formula,
    classes_with_hash_code,
    fold_of,
    formulas,
    parse_formula,
)
from rescale.flink.serializers.program import Program, compile_key_program
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Fixed, FixedHash, Product, nodes
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, SnapshotError, UnsupportedError

LEAST_TESTABLE_MAX_PARALLELISM = 64
HIGHEST_FALSE_FIT_CHANCE = 1e-9
"""Highest accepted probability that a wrong formula fits all tested keys."""

_FIRST_BATCH_SIZE, _BATCH_GROWTH = 4, 4
_SHOWN_DIVISORS = 5
_OWN_FUNCTION_ADVICE = Advice("give your own function, ", mention("key-hash", "module:function"))


@dataclass(frozen=True)
class KeyHash:
    """A hash of keys; its `name` is `KNOWN_HASH` if classes of Flink or the JDK define it, otherwise its formula.

    `named_hash` returns the hash for its `name`.
    """

    name: str
    program: Program


def known_hash(snapshot: SerializerSnapshot) -> KeyHash | None:
    """Return the hash of the keys of a serializer if classes of Flink or the JDK define it, else None."""
    try:
        program = compile_key_program(snapshot)
    except UnsupportedError:
        return None
    return KeyHash(KNOWN_HASH, program) if program.hashable else None


def candidate_hashes(snapshot: SerializerSnapshot) -> Iterator[KeyHash]:
    """Yield at most `MOST_FORMULAS` hashes to try for keys of a user's class, the likely ones first.

    Raises `UnsupportedError` if the end of the keys is unknown.
    """
    program = compile_key_program(snapshot)
    classes = classes_with_hash_code(program.tree)
    formulas_to_try = (
        formulas(classes) if classes else iter([Formula(CASE_CLASS, ())] if _has_case_class(program) else [])
    )
    candidates = (_key_hash(program, classes, formula) for formula in formulas_to_try)
    return (candidate for candidate in candidates if candidate.program.hashable)


def named_hash(snapshot: SerializerSnapshot, name: str) -> KeyHash:
    """Return the hash with this name for the keys of a serializer.

    Raises `RequestError` if the name does not fit the keys, and `UnsupportedError` if the end of the keys is unknown,
    or if the keys contain a value whose hash is unknown.
    """
    program = compile_key_program(snapshot)
    if name == KNOWN_HASH and program.hashable:
        return KeyHash(KNOWN_HASH, program)
    classes = classes_with_hash_code(program.tree)
    formula = parse_formula(name)
    if program.hashable or formula is None or not _fits_classes(formula, classes):
        raise RequestError(
            f"{name!r} does not define a hash for keys of the type {program.name}",
            expected=_expected_text(program, classes),
            advice="give a formula, with the fields in the order in which hashCode() uses them, or module:function",
        )
    key_hash = _key_hash(program, classes, formula)
    if not key_hash.program.hashable:
        raise UnsupportedError(
            f"keys of the type {program.name} contain a value whose hash is unknown",
            advice="a max parallelism that divides the old one needs no hash of keys; or give module:function",
        )
    return key_hash


def choose_hash(
    snapshot: SerializerSnapshot, data: Bytes, starts: Longs, limits: Longs, groups: Longs, max_parallelism: int
) -> KeyHash:
    """Return the known hash of the keys, without a test, or else the only hash that gives all keys their key groups.

    `data`, `starts` and `limits` are as for `walk_keys`. `groups` (int64) has the key group of each key, and
    `max_parallelism` is the number of key groups. Raises `SnapshotError` if a key is damaged, and `UnsupportedError`,
    with alternatives, if no hash fits, if several different hashes fit, or if there are too few keys to be certain.
    """
    defined_hash = known_hash(snapshot)
    if defined_hash is not None:
        return defined_hash
    type_name, formula_count, key_count, fitting_hashes = _test_formulas(
        snapshot, _Keys(data, starts, limits, groups), max_parallelism
    )
    needed_key_count = math.ceil(math.log(formula_count / HIGHEST_FALSE_FIT_CHANCE, max_parallelism))
    distinct_hash_count = min(len(np.unique(hash_codes)) for hash_codes in fitting_hashes.values())
    if distinct_hash_count < needed_key_count:
        _refuse(
            f"too few keys to find the hash of keys of the type {type_name}",
            max_parallelism,
            expected=f"{needed_key_count} keys with different hashes, to test {formula_count} formulas",
            found=f"{distinct_hash_count} in {key_count} distinct keys",
        )
    first, *other_candidates = fitting_hashes
    for other in other_candidates:
        if not np.array_equal(fitting_hashes[other], fitting_hashes[first]):
            _refuse(
                f"two formulas fit the keys of the type {type_name}, but give different hashes",
                max_parallelism,
                found=f"{first.name} and {other.name}",
            )
    return first


def count_distinct_keys(snapshot: SerializerSnapshot, data: Bytes, starts: Longs, limits: Longs) -> int:
    """Return the number of distinct keys; `data`, `starts` and `limits` are as for `walk_keys`.

    Raises `UnsupportedError` if the end of the keys is unknown, and `SnapshotError` if a key is damaged.
    """
    zero_groups = np.zeros(len(starts), np.int64)
    return len(_distinct_keys(compile_key_program(snapshot), _Keys(data, starts, limits, zero_groups)))


def refuse_no_hash(
    snapshot: SerializerSnapshot, data: Bytes, starts: Longs, limits: Longs, groups: Longs, max_parallelism: int
) -> None:
    """Raise the errors of `choose_hash` that more keys could not prevent, for instance that no formula fits these keys.

    The arguments are as for `choose_hash`, but may hold few keys, or none.
    """
    if known_hash(snapshot) is None:
        _test_formulas(snapshot, _Keys(data, starts, limits, groups), max_parallelism)


class _FormulaTest(NamedTuple):
    """Result of testing formulas; `fitting_hashes` has each formula that fits all keys, with the keys' hash codes."""

    type_name: str
    formula_count: int
    key_count: int
    fitting_hashes: dict[KeyHash, HashCodes]


def _test_formulas(snapshot: SerializerSnapshot, sample: _Keys, max_parallelism: int) -> _FormulaTest:
    """Test all formulas on a sample, and return the result if one fits. Raises the errors of `refuse_no_hash`."""
    try:
        program = compile_key_program(snapshot)
    except UnsupportedError as error:
        raise UnsupportedError(
            error.what, advice=Advice(_divisor_advice(max_parallelism), "; or ", _OWN_FUNCTION_ADVICE)
        ) from None
    if any(isinstance(node, Fixed) and node.rule == FixedHash.IDENTITY for node in nodes(program.tree)):
        _refuse(f"keys of the type {program.name} contain an enum, whose hash differs in each JVM", max_parallelism)
    candidates = list(candidate_hashes(snapshot))
    if not candidates:
        _refuse(f"the hash of keys of the type {program.name} is unknown", max_parallelism, has_formula=False)
    if max_parallelism < LEAST_TESTABLE_MAX_PARALLELISM:
        _refuse(
            f"the hash of keys of the type {program.name} is unknown, and there are too few key groups to find it",
            max_parallelism,
            expected=f"an old max parallelism of at least {LEAST_TESTABLE_MAX_PARALLELISM}",
            found=max_parallelism,
        )
    keys = _distinct_keys(program, sample)
    fitting_hashes = _fitting_candidates(candidates, keys, max_parallelism)
    if not fitting_hashes:
        _refuse(
            f"the hash of keys of the type {program.name} is unknown, and no formula fits",
            max_parallelism,
            expected=f"one of {len(candidates)} formulas that gives all {len(keys)} keys the key groups they lie in",
        )
    return _FormulaTest(program.name, len(candidates), len(keys), fitting_hashes)


@dataclass(frozen=True)
class _Keys:
    """Keys in a buffer, and the key groups that contain them."""

    data: Bytes
    starts: Longs
    limits: Longs
    groups: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> _Keys:
        return _Keys(self.data, self.starts[begin:end], self.limits[begin:end], self.groups[begin:end])

    def hash_codes(self, candidate: KeyHash) -> HashCodes:
        hash_codes = walk_keys(candidate.program, self.data, self.starts, self.limits).hash_codes
        assert hash_codes is not None
        return hash_codes


def _distinct_keys(program: Program, sample: _Keys) -> _Keys:
    """Return the distinct pairs of key and key group; the `limits` in the result are the ends of the keys."""
    data, starts, limits, groups = sample.data, sample.starts, sample.limits, sample.groups
    walked_keys = walk_keys(program, data, starts, limits)
    first_error = walked_keys.first_error()
    if first_error is not None:
        index, error_text = first_error
        error_class = UnsupportedError if error_text == ERROR_TEXTS[SUBCLASS] else SnapshotError
        raise error_class(
            f"a key cannot be read as a {program.name}",
            found=f"{error_text}, at byte {walked_keys.ends[index] - starts[index]} of the key",
        )
    first_indices: dict[tuple[bytes, int], int] = {}
    data_bytes = data.tobytes()
    spans = zip(starts.tolist(), walked_keys.ends.tolist(), groups.tolist(), strict=True)
    for index, (start, end, group) in enumerate(spans):
        first_indices.setdefault((data_bytes[start:end], group), index)
    distinct_indices = np.fromiter(first_indices.values(), np.int64, len(first_indices))
    return _Keys(data, starts[distinct_indices], walked_keys.ends[distinct_indices], groups[distinct_indices])


def _fitting_candidates(candidates: list[KeyHash], keys: _Keys, max_parallelism: int) -> dict[KeyHash, HashCodes]:
    """Return the candidates that fit all keys, each with the hash codes that it gives to the keys.

    Batches of keys start small and grow, because most candidates already fail at the first few keys.
    """
    hash_codes_of_fitting: dict[KeyHash, list[HashCodes]] = {candidate: [] for candidate in candidates}
    begin, batch_size = 0, _FIRST_BATCH_SIZE
    while begin < len(keys):
        batch = keys.slice(begin, begin + batch_size)
        for candidate in list(hash_codes_of_fitting):
            hash_codes = batch.hash_codes(candidate)
            if np.array_equal(key_groups_of_hashes(hash_codes, max_parallelism), batch.groups):
                hash_codes_of_fitting[candidate].append(hash_codes)
            else:
                del hash_codes_of_fitting[candidate]
        begin, batch_size = begin + batch_size, batch_size * _BATCH_GROWTH
    return {
        candidate: np.concatenate([np.empty(0, np.int32), *hash_codes])
        for candidate, hash_codes in hash_codes_of_fitting.items()
    }


def _key_hash(program: Program, classes: tuple[ClassWithHashCode, ...], formula: Formula) -> KeyHash:
    return KeyHash(str(formula), replace(program, tree=apply_formula(program.tree, classes, formula)))


def _has_case_class(program: Program) -> bool:
    return any(isinstance(node, Product) for node in nodes(program.tree))


def _fits_classes(formula: Formula, classes: tuple[ClassWithHashCode, ...]) -> bool:
    fold = fold_of(formula.fold_name)
    if len(formula.fields_by_class) != len(classes):
        return False
    return all(
        fold is not None
        and len({name.rpartition(" ")[2] for name in names}) == len(names)
        and all(java_class.can_use(name, fold) for name in names)
        for names, java_class in zip(formula.fields_by_class, classes, strict=True)
    )


def _expected_text(program: Program, classes: tuple[ClassWithHashCode, ...]) -> str:
    if program.hashable:
        return f"{KNOWN_HASH}: the hash of these keys is known"
    if not classes:
        return CASE_CLASS if _has_case_class(program) else "module:function"
    field_lists = "".join(f"({','.join(java_class.fields)})" for java_class in classes)
    fold_names = ", ".join(FOLDS)
    class_names = ", then ".join(java_class.name for java_class in classes)
    return f"{fold_names} or STARTxFACTOR, and fields of {class_names}, for instance {next(iter(FOLDS))}{field_lists}"


def _refuse(
    what: str, max_parallelism: int, expected: object = None, found: object = None, *, has_formula: bool = True
) -> NoReturn:
    formula_advice = Advice("name the formula, ", mention("key-hash", "NAME"), ", or ") if has_formula else Advice()
    advice = Advice(_divisor_advice(max_parallelism), "; or ", formula_advice, _OWN_FUNCTION_ADVICE)
    raise UnsupportedError(what, expected=expected, found=found, advice=advice)


def _divisor_advice(max_parallelism: int) -> Advice:
    divisors = [number for number in range(max_parallelism // 2, 1, -1) if max_parallelism % number == 0]
    if not divisors:
        return Advice(f"keep the max parallelism, {max_parallelism}")
    divisors_text = ", ".join(map(str, divisors[:_SHOWN_DIVISORS])) + (", …" if len(divisors) > _SHOWN_DIVISORS else "")
    return Advice(
        "a max parallelism that divides the old one needs no hash of keys: ",
        mention("max-parallelism"),
        f" {divisors_text}",
    )
