"""Errors as data and as text."""

from __future__ import annotations

import copy
import json
import pickle

import msgspec
import numpy as np
import pytest

from rescale.text.error_document import ErrorDocument
from rescale.text.errors import (
    IntegrityError,
    InternalError,
    LockedError,
    RequestError,
    RescaleError,
    SnapshotError,
    StoreError,
    UnsupportedError,
    as_rescale_error,
    error_to_show,
)

ERROR_CLASSES = [
    RequestError,
    LockedError,
    SnapshotError,
    UnsupportedError,
    IntegrityError,
    StoreError,
    InternalError,
    RescaleError,
]
DETAILS = {
    "path": "s3://b/k/_metadata",
    "offset": 0,
    "operator": "counts",
    "state": "sum",
    "expected": "1",
    "found": "2",
    "advice": "take another savepoint",
}


def are_equal(error: RescaleError, other: RescaleError) -> bool:
    return type(error) is type(other) and error.document() == other.document() and str(error) == str(other)


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
@pytest.mark.parametrize("details", [{}, DETAILS, {"offset": 7}])
def test_error_survives_json_pickle_and_copy(error_class: type[RescaleError], details: dict[str, object]) -> None:
    error = error_class("what is wrong", **details)
    document = msgspec.json.encode(error.document())
    assert are_equal(RescaleError.of_document(msgspec.json.decode(document, type=ErrorDocument)), error)
    assert are_equal(pickle.loads(pickle.dumps(error)), error)
    assert are_equal(copy.copy(error), error)


@pytest.mark.parametrize("error_class", ERROR_CLASSES[:-1])
@pytest.mark.parametrize("details", [{}, DETAILS, {"path": "/a: b", "found": "two\nlines"}])
def test_an_error_is_read_from_its_text(error_class: type[RescaleError], details: dict[str, object]) -> None:
    """Spark reports the exception of a worker as text."""
    error = error_class("what is wrong: this", **details)
    read_back = RescaleError.from_text(error_class.__name__, str(error))
    assert (type(read_back), str(read_back)) == (error_class, str(error))
    assert read_back is not None
    assert read_back.offset == error.offset
    assert RescaleError.from_text("KeyError", str(error)) is None


def test_unpaired_surrogate_in_an_error_is_escaped() -> None:
    """Java can write an unpaired surrogate into a name."""
    error = SnapshotError("no topic", operator="a\ud800", found="\ude6c")
    document = json.loads(msgspec.json.encode(error.document()))
    assert (document["operator"], document["found"]) == ("a\\ud800", "\\ude6c")
    assert str(error).splitlines()[1:] == ["  operator: a\\ud800", "  found: \\ude6c"]


def test_each_class_of_errors_has_its_exit_code() -> None:
    assert [error_class.exit_code for error_class in ERROR_CLASSES] == [2, 2, 3, 3, 4, 1, 5, 1]
    assert [error_class.is_final for error_class in ERROR_CLASSES] == [True, True, True, True, True, False, True, True]


def test_error_of_an_unknown_class_is_read_as_the_base_class() -> None:
    error = RescaleError.of_document(
        msgspec.convert({"error": "NewError", "what": "new", "exit_code": 9, "more": 1}, ErrorDocument)
    )
    assert (type(error), error.what, error.exit_code) == (RescaleError, "new", 1)


def test_text_of_an_error_has_a_line_for_each_detail() -> None:
    error = SnapshotError("the data ends too early", path="/a/b", offset=0, expected=4, found=0, advice="look again")
    assert str(error).splitlines() == [
        "the data ends too early",
        "  path: /a/b",
        "  at byte: 0",
        "  expected: 4",
        "  found: 0",
        "  what to do: look again",
    ]
    assert str(RequestError("no")) == "no"


def test_located_keeps_details_that_an_error_has() -> None:
    error = SnapshotError("damaged", offset=3)
    assert error.located(path="/a", offset=9) is error
    assert (error.path, error.offset) == ("/a", 3)


def test_damage_has_advice_where_it_is_shown() -> None:
    assert "another snapshot" in str(error_to_show(SnapshotError("damaged", offset=3)).advice)
    assert error_to_show(SnapshotError("damaged", advice="look again")).advice == "look again"
    assert error_to_show(RequestError("no")).advice is None


def test_numpy_offset_is_written_as_a_number() -> None:
    """A loop that runs uncompiled raises errors with NumPy integers, which JSON encoders refuse."""
    error = SnapshotError("damaged", offset=np.int64(3))
    assert msgspec.json.decode(msgspec.json.encode(error.document()))["offset"] == 3


@pytest.mark.parametrize("exception", [MemoryError(), RuntimeError("can't start new thread"), ConnectionResetError()])
def test_exhausted_resource_is_a_store_error(exception: Exception) -> None:
    assert isinstance(as_rescale_error(exception), StoreError)
    assert isinstance(as_rescale_error(RuntimeError("another")), InternalError)


def test_clock_after_2262_is_a_request_error() -> None:
    error = as_rescale_error(OverflowError("timestamp too large to convert to C _PyTime_t"))
    assert type(error) is RequestError
    assert "clock" in (error.advice or "")
    assert type(as_rescale_error(OverflowError("int too large"))) is InternalError
