"""Tests for each module of the validation, and the mutants that no test can find."""

# ruff: noqa: E501 (a statement is one line, however long)

from __future__ import annotations

CHECKS = tuple(
    f"tests/execution/compare/validation/test_{name}.py"
    for name in (
        "comparer",
        "element_shapes",
        "element_tallies",
        "givers",
        "header_checks",
        "listed_checks",
        "metadata_checks",
        "reckoned_sums",
        "record_proof",
        "shape_checks",
        "surplus_states",
        "verdict",
        "whole_comparison",
    )
)
"""Tests of made-up values and files of a few bytes: a hundred of them cost less than one snapshot."""

ALL = ("tests/execution/compare/validation", "tests/execution/test_damage.py")
RECORDS = ("tests/execution/rekeying/test_validation.py",)
RECORD_COMPARE = ("tests/execution/compare/validation/test_record_compare.py", *RECORDS)
KEYS = ("tests/execution/compare/validation/test_key_counter.py",)
BY_MODULE = {
    **dict.fromkeys(
        (
            "check_units",
            "compare",
            "coverage",
            "headers",
            "record_proof",
            "stored_sums",
            "timer_coverage",
            "verdict",
        ),
        CHECKS,
    ),
    "counting_loop": KEYS,
    "key_counter": KEYS,
    "declared_differences": ("tests/execution/compare/validation/test_declared_differences.py",),
    "declared_offsets": ("tests/execution/compare/validation/test_declared_offsets.py",),
    "directories": tuple(
        f"tests/execution/compare/validation/test_{name}.py"
        for name in (
            "directories",
            "directory_looks",
            "rewritten_directories",
            "files_proof",
            "files_proof_faults",
            "files_referred_to",
        )
    ),
    "record_compare": RECORD_COMPARE,
    "validation": (*ALL, *RECORDS),
}
TESTS = {f"execution/compare/validation/{name}.py": tests for name, tests in BY_MODULE.items()} | {
    "execution/compare/validation": ALL,
    "execution/compare/source_digests.py": RECORD_COMPARE,
}
"""Tests of the modules that they are about; the others are tried by all tests of the validation."""

_BEGINNING = "where a search begins decides how long it takes, and nothing else"

ACCEPTED: dict[str, dict[str, str]] = {
    "execution/compare/source_digests.py: digest_records": {
        "return dict(zip(names, digester.digests()))": "a digest is made for each state",
        "return dict(zip(names, digester.digests(), strict=False))": "a digest is made for each state",
    },
    "execution/compare/validation/check_units.py: list_checks": {
        "for i, (old, new) in enumerate(zip(source.operators, result.operators)):": "how many there are was compared with the metadata",
        "for i, (old, new) in enumerate(zip(source.operators, result.operators, strict=False)):": "how many there are was compared with the metadata",
    },
    "execution/compare/validation/check_units.py: _remaining_checks": {
        "near = Givers(list(remaining))": "directories come in the order of their subtasks, which is that of key groups",
    },
    "execution/compare/validation/compare.py: Comparer._groups": {
        "for pair, digests in zip(check.pairs, self._group_digests(check.pairs)):": "there is a digest for each length that was asked for",
        "for pair, digests in zip(check.pairs, self._group_digests(check.pairs), strict=False):": "there is a digest for each length that was asked for",
    },
    "execution/compare/validation/compare.py: Comparer._group_digests": {
        "sources = [pair.source for pair in pairs]": "a pair without a source stands alone, and was seen to above: that is for the type checker",
    },
    "execution/compare/validation/coverage.py: check_metadata": {
        "for old, new in zip(source.operators, result.operators):": "both were found to have the same ids in the same order before",
        "for old, new in zip(source.operators, result.operators, strict=False):": "both were found to have the same ids in the same order before",
    },
    "execution/compare/validation/coverage.py: pair_key_groups": {
        "tables = headers.compare(different(givers.of(own)), stream)": "raw keyed state has no header: all are equal, and nothing is translated",
        "if source is None or (owner.header != stream.header and owner.has_no_entry):": "an owner comes with an extent, and none with none",
        "if owner is None or (owner.header != stream.header and owner.has_no_entry):": "an owner comes with an extent, and none with none",
    },
    "execution/compare/validation/coverage.py: is_compared_by_record": {
        "if _lists_other_states(old, new):": "the kinds are the same by then: where the source has no heap stream the result has none to ask about",
        "return _directories(old) != _directories(new)": "the kinds are the same by then: without directories both lists are empty",
    },
    "execution/compare/validation/coverage.py: check_rekeyed": {
        "left_out = {state.name for timer_stream in doubled for state in timer_stream.parsed.states}": "timers are told by their services, so what says of them is parsed: that is for the type checker",
    },
    "execution/compare/validation/coverage.py: pair_database_files": {
        "return [FilePair(new_database.subtask, name, source, result) for old_database, new_database in zip(old.databases, new.databases) for name, source, result in ((f'the states of subtask {old_database.subtask}', old_database.header_extent, new_database.header_extent), *((source_file.name, source_file.extent, result_file.extent) for source_file, result_file in zip(*_by_name(old_database, new_database), strict=True)))]": "the directories and the names of their files were compared before",
        "return [FilePair(new_database.subtask, name, source, result) for old_database, new_database in zip(old.databases, new.databases, strict=False) for name, source, result in ((f'the states of subtask {old_database.subtask}', old_database.header_extent, new_database.header_extent), *((source_file.name, source_file.extent, result_file.extent) for source_file, result_file in zip(*_by_name(old_database, new_database), strict=True)))]": "the directories and the names of their files were compared before",
        "return [FilePair(new_database.subtask, name, source, result) for old_database, new_database in zip(old.databases, new.databases, strict=True) for name, source, result in ((f'the states of subtask {old_database.subtask}', old_database.header_extent, new_database.header_extent), *((source_file.name, source_file.extent, result_file.extent) for source_file, result_file in zip(*_by_name(old_database, new_database))))]": "the directories and the names of their files were compared before",
        "return [FilePair(new_database.subtask, name, source, result) for old_database, new_database in zip(old.databases, new.databases, strict=True) for name, source, result in ((f'the states of subtask {old_database.subtask}', old_database.header_extent, new_database.header_extent), *((source_file.name, source_file.extent, result_file.extent) for source_file, result_file in zip(*_by_name(old_database, new_database), strict=False)))]": "the directories and the names of their files were compared before",
    },
    "execution/compare/validation/coverage.py: _modes": {
        "return list({(state.name, state.mode.name) for stream in streams for state in stream.states})": "the order shows only in what an error says, and for two equal sets it is the same but for collisions",
    },
    "execution/compare/validation/counting_loop.py: count_distinct": {
        "continue: break": "the count stays as it is from there on: that only ends earlier",
        "place = key * 2654435761 << 8 & mask": _BEGINNING,
        "place = key // 2654435761 >> 8 & mask": _BEGINNING,
        "place = key * 2654435762 >> 8 & mask": _BEGINNING,
        "place = key * 2654435760 >> 8 & mask": _BEGINNING,
        "place = key * 2654435761 >> 9 & mask": _BEGINNING,
        "place = key * 2654435761 >> 7 & mask": _BEGINNING,
        "place = place - 1 & mask": "a search may go either way round",
        "place = place + 2 & mask": "every second place is one more than there are keys, at least",
    },
    "execution/compare/validation/declared_differences.py: check_declared": {
        "for old, new in zip(entries, result.metadata.operators):": "their ids were compared before",
        "for old, new in zip(entries, result.metadata.operators, strict=False):": "their ids were compared before",
    },
    "execution/compare/validation/declared_offsets.py: _check_equal": {
        "for role, declared, actual in zip(('held', 'waiting', 'assigned'), expected, books):": "there are three books of each",
        "for role, declared, actual in zip(('held', 'waiting', 'assigned'), expected, books, strict=False):": "there are three books of each",
    },
    "execution/compare/validation/directories.py: whole_files": {
        "pairs = list(zip(source.operators, result.operators))": "their ids were compared with the metadata",
        "pairs = list(zip(source.operators, result.operators, strict=False))": "their ids were compared with the metadata",
        "pairs = list(zip(_source_with_tables(source).operators, _result_with_tables(result).operators))": "their ids were compared with the metadata",
        "pairs = list(zip(_source_with_tables(source).operators, _result_with_tables(result).operators, strict=False))": "their ids were compared with the metadata",
    },
    "execution/compare/validation/headers.py: KeyedHeaders._tables": {
        "timer_headers = [timer_header(timer_stream.services, compressed=compressed) for timer_stream in self._timers]": "streams of timers have services: that is for the type checker",
        "tables = zip(givers, merged.id_maps[1:])": "not to be strict is the default: headers of timers have maps behind those of the givers",
    },
    "execution/compare/validation/record_proof.py: _compare_doubled": {
        "states = {state.name for stream in operator.doubled_timers for state in stream.parsed.states}": "timers are told by their services, so what says of them is parsed: that is for the type checker",
    },
    "execution/compare/validation/stored_sums.py: _Side.look_at": {
        "wanted = list((number for number in set(numbers) if number > 0))": "in whatever order a store is asked",
        "self.sums = dict(zip(wanted, side_by_side(self._sums, wanted)))": "there is one answer for each that was asked for",
        "self.sums = dict(zip(wanted, side_by_side(self._sums, wanted), strict=False))": "there is one answer for each that was asked for",
    },
    "execution/compare/validation/stored_sums.py: _Side._sums": {
        "return dict(open_store(uri).checksums(uri, pin))": "the files of a snapshot have versions: that is for the type checker",
    },
    "execution/compare/validation/stored_sums.py: _Side._size": {
        "return pin.size": "the files of a snapshot have versions: that is for the type checker",
        "return 1 if pin is None else pin.size": "the files of a snapshot have versions: that is for the type checker",
        "return -2 if pin is None else pin.size": "the files of a snapshot have versions: that is for the type checker",
        "return -0 if pin is None else pin.size": "the files of a snapshot have versions: that is for the type checker",
    },
    "execution/compare/validation/timer_coverage.py: check_raw_timers": {
        "source_headers = list(dict.fromkeys((timers.parsed for timers in old.raw_timers)))": "timers are told by their services, so what says of them is parsed: that is for the type checker",
    },
    "execution/compare/validation/timer_coverage.py: _check_services": {
        "headers = [stream.parsed, *source_headers]": "timers are told by their services, so what says of them is parsed: that is for the type checker",
        "pass: check_equal(subject, merged, stream.parsed, old.label)": "names that are the same with another serializer are refused by the merge, unless one covers the other: Flink writes them alike in one snapshot",
    },
    "execution/compare/validation/validation.py: SnapshotPair.operators": {
        "return list(zip(self.source.operators, self.result.operators))": "their ids were compared before there is a pair",
        "return list(zip(self.source.operators, self.result.operators, strict=False))": "their ids were compared before there is a pair",
    },
    "execution/compare/validation/validation.py: compared": {
        "for old, new in zip(source.operators, result.operators):": "their ids were compared with the metadata",
        "for old, new in zip(source.operators, result.operators, strict=False):": "their ids were compared with the metadata",
    },
    "execution/compare/validation/validation.py: _checksum_proof": {
        "if not algorithms:": "without sums there are no algorithms: that is for the type checker",
    },
    "execution/compare/validation/validation.py: _compare_bags": {
        "bags[tally.state][tally.in_result] = (count + tally.items, (total - tally.digest) % MODULUS)": "both sides are reckoned alike: a sum tells as much when it is subtracted",
    },
    "execution/compare/validation/verdict.py: _limits": {
        "stays = [bool(old.databases) and (not is_compared_by_record(old, new)) for old, new in zip(source.operators, result.operators)]": "their ids were compared before there are proofs",
        "stays = [bool(old.databases) and (not is_compared_by_record(old, new)) for old, new in zip(source.operators, result.operators, strict=False)]": "their ids were compared before there are proofs",
        "made_anew = any((proof.directories and (not same) for proof, same in zip(proofs, stays)))": "there is one proof for each operator",
        "made_anew = any((proof.directories and (not same) for proof, same in zip(proofs, stays, strict=False)))": "there is one proof for each operator",
    },
}
