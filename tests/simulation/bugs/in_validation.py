"""Bugs in the comparison of a result with its source, planted beside damage that the comparison must find."""

# ruff: noqa: ARG001 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rescale.execution.compare.validation import check_units, validation, verdict
from rescale.execution.compare.validation.compare import Comparer
from rescale.execution.compare.validation.headers import ElementHeaderComparer, KeyedHeaderComparer, check_equal
from rescale.execution.compare.validation.validation import SnapshotPair, compare_snapshots, validate_result
from rescale.execution.sources import byte_digests
from rescale.runstate.certified_files import CertifiedFile, certified_files
from rescale.runstate.pinned_snapshots import open_pinned
from rescale.snapshot.reading.opening import open_candidate
from rescale.storage.locations import contains, name
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, StoreError
from simulation.bugs.planting import Bug, attribute_planter, both, do_nothing, function_planter

_group_digests, _compare = Comparer._group_digests, Comparer.__call__
_compare_bags, _list_checks, _pair_key_groups = (
    validation._compare_bags,
    validation.list_checks,
    check_units.pair_key_groups,
)


def _source_digests_twice(self: Comparer, pairs: Any) -> Iterator[tuple[int, int]]:
    for expected, _ in _group_digests(self, pairs):
        yield expected, expected


def _first_pair_of_a_run(self: Comparer, pairs: Any) -> Iterator[tuple[int, int]]:
    """Compare only the first pair of each run of pairs."""
    for i, (expected, actual) in enumerate(_group_digests(self, pairs)):
        yield expected, actual if i == 0 else expected


def _compare_source_with_itself(self: Comparer, check: Any) -> Any:
    """Read elements of the source in place of those of the result."""
    return _compare(replace(self, result=self.source), check) if hasattr(check, "elements") else _compare(self, check)


def _compare_counts_only(operator: Any, tallies: Any) -> None:
    _compare_bags(operator, [tally._replace(digest_sum=0) for tally in tallies])


def _list_all_checks_but_one(*arguments: Any) -> Any:
    checks = _list_checks(*arguments)
    return replace(checks, units=checks.units[1:])


def _list_no_checks(*arguments: Any) -> Any:
    return replace(_list_checks(*arguments), units=[])


def _pair_half_the_groups(*arguments: Any) -> Any:
    return _pair_key_groups(*arguments)[::2]


def _digests_of_beginnings(chunks: Any, others: Any) -> tuple[int, int]:
    data, other_data = b"".join(map(bytes, chunks)), b"".join(map(bytes, others))
    return byte_digests.digest([data[:8]]), byte_digests.digest([other_data[:8]])


def _open_present_source(plan: Any, *_: Any) -> Any:
    return open_candidate(plan.files[0].uri, plan.source, plan.allow_prefixes)


def _always_comparable(source: Any, result: Any, *rest: Any) -> Any:
    try:
        return compare_snapshots(source, result, *rest)
    except IntegrityError:
        return replace(compare_snapshots(source, source, *rest), result=result)


def _always_valid(pair: SnapshotPair, tasks: Any) -> Any:
    try:
        return validate_result(pair, tasks)
    except IntegrityError:
        return validate_result(compare_snapshots(pair.source, pair.source, pair.key_hashes), tasks)


def _certified_as_seen(target: str, seen: Any) -> Any:
    """Certify the files as they were when they were opened, without a second look."""
    named_pins = ((name(uri) if contains(target, uri) else uri, pin) for uri, pin in seen)
    return tuple(
        CertifiedFile(file_name, pin.size, (pin.etag or "").strip('"') or None, None) for file_name, pin in named_pins
    )


def _certify_no_files(target: str, seen: Any) -> Any:
    return ()


def _certify_half_the_files(target: str, seen: Any) -> Any:
    return certified_files(target, list(seen)[::2])


BUGS = [
    Bug(
        "validation: everything is found equal",
        both(function_planter(compare_snapshots, _always_comparable), function_planter(validate_result, _always_valid)),
    ),
    Bug("validation: nothing is listed to be compared", attribute_planter(validation, "list_checks", _list_no_checks)),
    Bug("validation: one unit is skipped", attribute_planter(validation, "list_checks", _list_all_checks_but_one)),
    Bug(
        "validation: every other key group is skipped",
        attribute_planter(check_units, "pair_key_groups", _pair_half_the_groups),
    ),
    Bug("validation: the source is read twice", attribute_planter(Comparer, "_group_digests", _source_digests_twice)),
    Bug(
        "validation: one key group of a run is compared",
        attribute_planter(Comparer, "_group_digests", _first_pair_of_a_run),
    ),
    Bug(
        "validation: elements are read in the source",
        attribute_planter(Comparer, "__call__", _compare_source_with_itself),
    ),
    Bug(
        "validation: key groups by their first bytes",
        function_planter(byte_digests.digest_pair, _digests_of_beginnings),
    ),
    Bug("validation: elements are counted only", attribute_planter(validation, "_compare_bags", _compare_counts_only)),
    Bug("validation: elements are not compared", attribute_planter(validation, "_compare_bags", do_nothing)),
    Bug(
        "validation: broadcast copies are not compared",
        attribute_planter(validation, "_compare_broadcasts", do_nothing),
    ),
    Bug("validation: records are not compared", attribute_planter(validation, "record_proof", do_nothing)),
    Bug(
        "validation: other fields of `_metadata` are not compared",
        attribute_planter(validation, "check_metadata", do_nothing),
    ),
    Bug(
        "validation: states of elements are not compared", attribute_planter(check_units, "check_elements", do_nothing)
    ),
    Bug(
        "validation: headers of key groups are not compared",
        attribute_planter(KeyedHeaderComparer, "compare", lambda *_: {}),
    ),
    Bug(
        "validation: headers of elements are not compared",
        attribute_planter(ElementHeaderComparer, "compare", do_nothing),
    ),
    Bug("validation: values are not compared by `check_equal`", function_planter(check_equal, do_nothing)),
    Bug("validation: reads the source as it is now", function_planter(open_pinned, _open_present_source)),
    Bug("certificate: names no files", attribute_planter(verdict, "certified_files", _certify_no_files)),
    Bug("certificate: names half of the files", attribute_planter(verdict, "certified_files", _certify_half_the_files)),
    Bug(
        "certificate: files are not looked at again", attribute_planter(verdict, "certified_files", _certified_as_seen)
    ),
    Bug("errors: a transient error is final", attribute_planter(StoreError, "is_final", True)),
    Bug("errors: a damaged source is transient", attribute_planter(SnapshotError, "is_final", False)),
    Bug("errors: a wrong result is transient", attribute_planter(IntegrityError, "is_final", False)),
    Bug("errors: a taken target is transient", attribute_planter(RequestError, "is_final", False)),
]
