"""States that RocksDB cannot keep under their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.refusals.databases import refuse_names
from rescale.planning.request.result_files import Format
from rescale.snapshot.model import Operator
from rescale.text.errors import UnsupportedError
from support.synthetic import database, header_of, operator, own_stream


def canonical(*names: str) -> Operator:
    return operator("counts", keyed=(own_stream(0, 1, 128, Framing.CANONICAL, header_of(*names)),))


def in_databases(*names: str) -> Operator:
    return operator("counts", databases=(replace(database(0, 1, 128, 10), parsed=header_of(*names)),))


def test_names_that_rocksdb_takes_are_not_refused() -> None:
    names = ("", "/", " ", "defaults", "ü𝄞", "x" * 3000)
    refuse_names(canonical(*names), Format.ROCKSDB)
    refuse_names(in_databases(*names), Format.KEEP)


@pytest.mark.parametrize(("name", "why"), [("a\0b", "a NUL character"), ("default", "reserves for itself")])
def test_canonical_state_keeps_any_name_and_becomes_no_database(name: str, why: str) -> None:
    named = canonical("fine", name)
    refuse_names(named, Format.KEEP)
    refuse_names(named, Format.CANONICAL)
    with pytest.raises(UnsupportedError, match=why) as caught:
        refuse_names(named, Format.ROCKSDB)
    assert (caught.value.operator, caught.value.state) == ("counts", name)
    assert "--format canonical" in str(caught.value.advice)
    refuse_names(replace(named, left_out=frozenset({name})), Format.ROCKSDB)


@pytest.mark.parametrize("wanted", Format)
def test_directories_are_not_opened_under_another_name(wanted: Format) -> None:
    """Directories of dropped state are opened, too."""
    named = replace(in_databases("fine", "a\0b"), left_out=frozenset({"a\0b"}))
    with pytest.raises(UnsupportedError, match="a NUL character") as caught:
        refuse_names(named, wanted)
    assert "take a canonical savepoint" in str(caught.value.advice)
