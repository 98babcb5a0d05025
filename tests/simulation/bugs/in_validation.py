"""Bugs in the comparison of a result with its source, planted beside damage that the comparison must find."""

# ruff: noqa: ARG001 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rescale.execution.compare.validation import check_units, validation, verdict
from rescale.execution.compare.validation.compare import Comparer
from rescale.execution.compare.validation.headers import ElementHeaderComparer, KeyedHeaderComparer, check_equal
from rescale.execution.compare.validation.record_compare import RecordComparer
from rescale.execution.compare.validation.validation import SnapshotPair, compare_snapshots, validate_result
from rescale.execution.sources import byte_digests
from rescale.runstate.certified_files import CertifiedFile, certified_files
from rescale.runstate.pinned_snapshots import open_pinned
from rescale.snapshot.reading.opening import open_candidate
from rescale.storage.locations import contains, name
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, StoreError
from simulation.bugs.planting import Bug, both, do_nothing, function, method

_digests, _compare, _records = Comparer._group_digests, Comparer.__call__, RecordComparer.__call__
_bags, _list_checks, _pairs = validation._compare_bags, validation.list_checks, check_units.pair_key_groups


def _source_pairs_twice(self: Comparer, pairs: Any) -> Iterator[tuple[int, int]]:
    for expected, _ in _digests(self, pairs):
        yield expected, expected


def _first_pair_of_a_run(self: Comparer, pairs: Any) -> Iterator[tuple[int, int]]:
    """Compare only the first pair of each run of pairs."""
    for i, (expected, actual) in enumerate(_digests(self, pairs)):
        yield expected, actual if i == 0 else expected


def _both_from_the_source(self: Comparer, check: Any) -> Any:
    """Read elements of the source in place of those of the result."""
    return _compare(replace(self, result=self.source), check) if hasattr(check, "elements") else _compare(self, check)


def _counts_only(operator: Any, tallies: Any) -> None:
    _bags(operator, [tally._replace(digest_sum=0) for tally in tallies])


def _all_but_one(*arguments: Any) -> Any:
    checks = _list_checks(*arguments)
    return replace(checks, units=checks.units[1:])


def _nothing_listed(*arguments: Any) -> Any:
    return replace(_list_checks(*arguments), units=[])


def _half_the_groups(*arguments: Any) -> Any:
    return _pairs(*arguments)[::2]


def _digests_of_beginnings(chunks: Any, others: Any) -> tuple[int, int]:
    data, two = b"".join(map(bytes, chunks)), b"".join(map(bytes, others))
    return byte_digests.digest([data[:8]]), byte_digests.digest([two[:8]])


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
    named = ((name(uri) if contains(target, uri) else uri, pin) for uri, pin in seen)
    return tuple(CertifiedFile(called, pin.size, (pin.etag or "").strip('"') or None, None) for called, pin in named)


def _no_files(target: str, seen: Any) -> Any:
    return ()


def _half_the_files(target: str, seen: Any) -> Any:
    return certified_files(target, list(seen)[::2])


BUGS = [
    Bug(
        "validation: everything is found equal",
        both(function(compare_snapshots, _always_comparable), function(validate_result, _always_valid)),
    ),
    Bug("validation: nothing is listed to be compared", method(validation, "list_checks", _nothing_listed)),
    Bug("validation: one unit is skipped", method(validation, "list_checks", _all_but_one)),
    Bug("validation: every other key group is skipped", method(check_units, "pair_key_groups", _half_the_groups)),
    Bug("validation: the source is read twice", method(Comparer, "_group_digests", _source_pairs_twice)),
    Bug("validation: one key group of a run is compared", method(Comparer, "_group_digests", _first_pair_of_a_run)),
    Bug("validation: elements are read in the source", method(Comparer, "__call__", _both_from_the_source)),
    Bug("validation: key groups by their first bytes", function(byte_digests.digest_pair, _digests_of_beginnings)),
    Bug("validation: elements are counted only", method(validation, "_compare_bags", _counts_only)),
    Bug("validation: elements are not compared", method(validation, "_compare_bags", do_nothing)),
    Bug("validation: broadcast copies are not compared", method(validation, "_compare_broadcasts", do_nothing)),
    Bug("validation: records are not compared", method(validation, "record_proof", do_nothing)),
    Bug("validation: other fields of `_metadata` are not compared", method(validation, "check_metadata", do_nothing)),
    Bug("validation: states of elements are not compared", method(check_units, "check_elements", do_nothing)),
    Bug("validation: headers of key groups are not compared", method(KeyedHeaderComparer, "compare", lambda *_: {})),
    Bug("validation: headers of elements are not compared", method(ElementHeaderComparer, "compare", do_nothing)),
    Bug("validation: values are not compared by `check_equal`", function(check_equal, do_nothing)),
    Bug("validation: reads the source as it is now", function(open_pinned, _open_present_source)),
    Bug("certificate: names no files", method(verdict, "certified_files", _no_files)),
    Bug("certificate: names half of the files", method(verdict, "certified_files", _half_the_files)),
    Bug("certificate: files are not looked at again", method(verdict, "certified_files", _certified_as_seen)),
    Bug("errors: a transient error is final", method(StoreError, "is_final", True)),
    Bug("errors: a damaged source is transient", method(SnapshotError, "is_final", False)),
    Bug("errors: a wrong result is transient", method(IntegrityError, "is_final", False)),
    Bug("errors: a taken target is transient", method(RequestError, "is_final", False)),
]
