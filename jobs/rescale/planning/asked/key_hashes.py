"""How the keys hash of operators whose records get new key groups.

The hash of Java's and Flink's own types is known. For a class of the user's, formulas are tried on a sample of its
keys, each of which lies in the key group of its hash; or the user names one, or a function.
"""

from __future__ import annotations

from collections.abc import Mapping

from rescale.errors import RescaleError, UnsupportedError
from rescale.flink.keyed.composite_key import check_key_ends
from rescale.flink.keys.key_function import names_function
from rescale.flink.keys.key_hash import choose_hash, known_hash, named_hash
from rescale.flink.serializers.program import DIVISORS_ADVICE
from rescale.planning.asked.operator_shapes import by_operator
from rescale.planning.values.work_class import WorkClass, work_class
from rescale.snapshot.key_sample import sample_keys
from rescale.snapshot.model import Operator, Snapshot


def choose_key_hashes(snapshot: Snapshot, maxima: Mapping[str, int], wanted: Mapping[str, str]) -> dict[str, str]:
    """The name of the rule by operator id, where one is known; `UnsupportedError` where none is and one is needed.

    `maxima` are the new max parallelisms, by the ids of the operators whose records are read; `wanted` is what the
    request says of operators, and under "" of all others whose hash is not known.
    """
    named = by_operator(snapshot.operators, wanted)
    chosen = {}
    for operator in snapshot.operators:
        operator_id = operator.entry.operator_id
        if not operator.keyed_headers or operator_id not in maxima:
            continue
        work = work_class(operator.entry.max_parallelism, maxima[operator_id])
        try:
            name = _choose(snapshot, operator, work, named.get(operator_id), wanted.get(""))
            if name is not None:
                _check_key_ends(operator)
                chosen[operator_id] = name
        except RescaleError as error:
            raise error.located(operator=operator.label) from None
    return chosen


def _choose(
    snapshot: Snapshot, operator: Operator, work: WorkClass, named: str | None, for_others: str | None
) -> str | None:
    header = operator.keyed_headers[0]
    if header is None:
        if work is not WorkClass.REHASH and named is None:
            return None
        raise UnsupportedError("the serializer of its keys, or of a state, is not known", advice=DIVISORS_ADVICE)
    known = known_hash(header.key_serializer)
    name = named or (for_others if known is None else None)
    if name is not None:
        return name if names_function(name) else named_hash(header.key_serializer, name).name
    if known is not None:
        return known.name
    if work is not WorkClass.REHASH:
        return None
    sample = sample_keys(operator, snapshot.contents)
    return choose_hash(header.key_serializer, *sample, operator.entry.max_parallelism).name


def _check_key_ends(operator: Operator) -> None:
    """Records of states that are left out are read, too, when the result is compared with the source."""
    for header in dict.fromkeys(filter(None, operator.keyed_headers)):
        check_key_ends(header)
