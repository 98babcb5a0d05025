"""Formulas for the `hashCode` of POJOs, as people and tools write it; a snapshot does not contain the method.

Nearly every `hashCode` is a *fold*: it begins with a start value, and for each field it multiplies by a factor and adds
the hash of the field. So a formula is the name of a fold and, for each class in the key, the fields used, in order:

    objects-hash(town,number)           31 * (31 * 1 + town.hashCode()) + number.hashCode()
    lombok(id,boolean open)             `open` is a primitive boolean, which Lombok hashes in its own way
    17x31(address,id)(street,town)      start value 17, factor 31; the second list is for the class of `address`
    case-class                          keys without POJOs, but with case classes that have the hash of Scala's compiler

A fold is linear in the hashes of the fields, with weights modulo 2^32.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rescale.flink.serializers.type_tree import (
    Fixed,
    FixedHash,
    Flagged,
    Product,
    TypeTree,
    WeightedSum,
    map_tree,
    nodes,
)

KNOWN_HASH = "java"
"""Name in plans of a hash that classes of the JDK or of Flink define; it is not a formula."""

CASE_CLASS = "case-class"
MOST_FORMULAS = 8_000
"""Largest number of formulas to try: enough for all orders of six fields. Trying them takes a second."""

_BOOLEAN_PREFIX = "boolean "
_HASH_MODULUS = 1 << 32


@dataclass(frozen=True)
class Fold:
    """Start value and multiplier of a `hashCode`; `null_hash` is the hash of a null field.

    `boolean_hashes` has the hashes of a primitive `true` and a primitive `false`; None if both hash as `Boolean`.
    """

    start: int
    multiplier: int
    null_hash: int = 0
    boolean_hashes: tuple[int, int] | None = (1, 0)


FOLDS = {
    "objects-hash": Fold(1, 31, boolean_hashes=None),
    "lombok": Fold(1, 59, null_hash=43, boolean_hashes=(79, 97)),
    "record": Fold(0, 31),
    "17x31": Fold(17, 31),
    "17x37": Fold(17, 37, boolean_hashes=(0, 1)),
    "7x31": Fold(7, 31),
    "1x59": Fold(1, 59),
}
"""The folds to try, by name, and where they come from.

`objects-hash` is the fold of `Objects.hash`, `Arrays.hashCode` and Eclipse; `record` that of Java's records, Kotlin's
data classes and IntelliJ IDEA; `17x31` that of "Effective Java"; `17x37` that of `HashCodeBuilder` in Apache Commons;
and `1x59` that of Lombok before it counted nulls.
"""

_START_AND_FACTOR = re.compile(r"(\d{1,10})x(\d{1,10})")
_FORMULA = re.compile(r"([\w-]+)((?:\([^()]*\))+)")


def fold_of(name: str) -> Fold | None:
    """Return the fold with this name: one of `FOLDS`, or `STARTxFACTOR` with any two numbers; None for other names."""
    match = _START_AND_FACTOR.fullmatch(name)
    if name in FOLDS or match is None:
        return FOLDS.get(name)
    return Fold(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class ClassWithHashCode:
    """A user's class that defines `hashCode`, and its hashable fields; `boolean_fields` are those of type boolean."""

    name: str
    fields: tuple[str, ...]
    boolean_fields: frozenset[str]

    def can_use(self, field: str, fold: Fold) -> bool:
        """Whether a formula can use this field; `boolean NAME` needs a fold with hashes for primitive booleans."""
        if field.startswith(_BOOLEAN_PREFIX):
            return fold.boolean_hashes is not None and field.removeprefix(_BOOLEAN_PREFIX) in self.boolean_fields
        return field in self.fields

    def fields_with_primitives(self) -> tuple[str, ...]:
        """Return all fields as a formula names them if every boolean field is primitive (`boolean NAME`)."""
        return tuple(_BOOLEAN_PREFIX + field if field in self.boolean_fields else field for field in self.fields)


@dataclass(frozen=True)
class Formula:
    """A formula; `fields_by_class` has the fields that it uses of each class, in the order of the classes."""

    fold_name: str
    fields_by_class: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return self.fold_name + "".join(f"({','.join(names)})" for names in self.fields_by_class)


def parse_formula(text: str) -> Formula | None:
    """Return the formula that the text describes, None if it is malformed."""
    match = _FORMULA.fullmatch(text)
    if match is None or fold_of(match[1]) is None:
        return Formula(text, ()) if text == CASE_CLASS else None
    argument_lists = (names.split(",") if names else () for names in match[2][1:-1].split(")("))
    return Formula(match[1], tuple(tuple(" ".join(name.split()) for name in names) for names in argument_lists))


def classes_with_hash_code(tree: TypeTree) -> tuple[ClassWithHashCode, ...]:
    """Return the POJOs in a key, outer POJOs first."""
    hashable_tree = map_tree(
        tree, _hash_changer(lambda pojo: replace(pojo, hash_sum=WeightedSum(0, (0,) * len(pojo.names), 0)))
    )
    classes = {}
    for node in nodes(hashable_tree):
        if isinstance(node, Flagged):
            fields = [(name, field) for name, field in zip(node.names, node.fields, strict=True) if field.hashable]
            booleans = frozenset(name for name, field in fields if field == Fixed(1, FixedHash.BOOLEAN))
            classes[node.class_name] = ClassWithHashCode(node.class_name, tuple(name for name, _ in fields), booleans)
    return tuple(classes.values())


def apply_formula(tree: TypeTree, classes: tuple[ClassWithHashCode, ...], formula: Formula) -> TypeTree:
    """Return the tree whose POJOs (`classes`) hash by the formula, and whose case classes hash by Scala's default.

    Raises `ValueError` unless `formula.fields_by_class` has one tuple of fields for each of `classes`.
    """
    fold = fold_of(formula.fold_name)
    fields_by_class = dict(zip((java_class.name for java_class in classes), formula.fields_by_class, strict=True))
    return map_tree(
        tree,
        _hash_changer(
            lambda pojo: pojo if fold is None else _folded_pojo(pojo, fold, fields_by_class[pojo.class_name])
        ),
    )


def _hash_changer(hash_pojo: Callable[[Flagged], Flagged]) -> Callable[[TypeTree], TypeTree]:
    """Return a function that makes a node hashable: a POJO by `hash_pojo`, a case class by Scala's default."""

    def change(tree: TypeTree) -> TypeTree:
        match tree:
            case Flagged():
                return hash_pojo(tree)
            case Product():
                return replace(tree, default_hash=True)
        return tree

    return change


def _folded_pojo(pojo: Flagged, fold: Fold, field_names: tuple[str, ...]) -> Flagged:
    constant = fold.start * pow(fold.multiplier, len(field_names), _HASH_MODULUS)
    weights = dict.fromkeys(pojo.names, 0)
    fields = dict(zip(pojo.names, pojo.fields, strict=True))
    weight = 1
    for field in reversed(field_names):
        name = field.removeprefix(_BOOLEAN_PREFIX)
        weights[name] = weight
        if name != field and fold.boolean_hashes is not None:
            if_true, if_false = fold.boolean_hashes
            constant += weight * if_false
            weights[name] = weight * (if_true - if_false)
            fields[name] = Fixed(1, FixedHash.INTEGER)
        weight = weight * fold.multiplier % _HASH_MODULUS
    modular_weights = tuple(weight % _HASH_MODULUS for weight in weights.values())
    return replace(
        pojo,
        fields=tuple(fields.values()),
        hash_sum=WeightedSum(constant % _HASH_MODULUS, modular_weights, fold.null_hash),
    )


def formulas(classes: tuple[ClassWithHashCode, ...]) -> Iterator[Formula]:
    """Yield at most `MOST_FORMULAS` formulas to try, the likely ones first.

    A `hashCode` may use only some fields, such as an id, and a snapshot does not have the fields in the order of the
    class. So subsets and permutations of the fields are tried. All arrangements of a kind (`_ARRANGEMENT_KINDS`) are
    left out for a fold if they would exceed the limit.
    """
    seen_formulas, formula_count = set(), 0
    for count_arrangements, arrangements in _ARRANGEMENT_KINDS:
        for fold_name, fold in FOLDS.items():
            for fields_by_class in _field_spellings(classes, fold):
                arrangement_count = math.prod(count_arrangements(len(names)) for names in fields_by_class)
                if formula_count + arrangement_count > MOST_FORMULAS:
                    continue
                formula_count += arrangement_count
                for ordered_fields_by_class in itertools.product(*map(arrangements, fields_by_class)):
                    formula = Formula(fold_name, ordered_fields_by_class)
                    if formula not in seen_formulas:
                        seen_formulas.add(formula)
                        yield formula


def _field_spellings(classes: tuple[ClassWithHashCode, ...], fold: Fold) -> Iterator[tuple[tuple[str, ...], ...]]:
    yield tuple(java_class.fields for java_class in classes)
    if fold.boolean_hashes is not None and any(java_class.boolean_fields for java_class in classes):
        yield tuple(java_class.fields_with_primitives() for java_class in classes)


_Fields = tuple[str, ...]


def _whole(fields: _Fields) -> Iterator[_Fields]:
    yield fields


def _subsets(fields: _Fields) -> Iterator[_Fields]:
    return itertools.chain.from_iterable(itertools.combinations(fields, n) for n in range(1, len(fields) + 1))


def _arrangements(fields: _Fields) -> Iterator[_Fields]:
    return itertools.chain.from_iterable(itertools.permutations(fields, n) for n in range(1, len(fields) + 1))


_ARRANGEMENT_KINDS: tuple[tuple[Callable[[int], int], Callable[[_Fields], Iterator[_Fields]]], ...] = (
    (lambda _: 1, _whole),
    (lambda n: 2**n - 1, _subsets),
    (math.factorial, itertools.permutations),
    (lambda n: sum(math.perm(n, k) for k in range(1, n + 1)), _arrangements),
)
"""Kinds of arrangements: a function for the number of arrangements of n fields, and a function that yields them."""
