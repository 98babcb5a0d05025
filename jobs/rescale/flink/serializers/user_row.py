"""Checks of rows that users register: a fault becomes an error that names the distribution and the class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rescale.flink.serializers.serializer import Serializer, TreeOf
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.snapshot_body import Body
from rescale.flink.serializers.type_tree import TypeTree, nodes
from rescale.text.errors import RequestError, RescaleError


def checked_row(row: Serializer, distribution: str) -> Serializer:
    """Return the row with functions that raise `RequestError` if the user's code fails.

    The functions pass on a `RescaleError`, such as an error about damaged bytes. Raises `RequestError` if the row
    itself is malformed.
    """
    with _faults_as_errors(row, distribution, "is malformed"):
        _check_fields(row)
    values = row.values if not callable(row.values) else _checked_values(row, row.values, distribution)
    return replace(row, layout=_checked_layout(row, distribution), values=values)


def _check_fields(row: Serializer) -> None:
    for name, is_valid, requirement in (
        ("name", isinstance(row.name, str), "a string"),
        ("versions", _are_versions(row.versions) and len(row.versions) > 0, "releases by version, such as {1: '1.0'}"),
        ("outer_versions", _are_versions(row.outer_versions), "releases by version, such as {1: '1.0'}"),
        ("layout", callable(row.layout), "a function that reads a body"),
    ):
        if not is_valid:
            raise TypeError(f"{name} must be {requirement}, not {getattr(row, name)!r}")
    if row.values is not None and not callable(row.values):
        _check_tree(row.values)


def _are_versions(versions: Any) -> bool:
    return isinstance(versions, Mapping) and all(
        isinstance(version, int) and isinstance(release, str) for version, release in versions.items()
    )


def _check_tree(tree: Any) -> None:
    """Raise `TypeError` unless every node of a tree is a type, and Python can hash the tree (`lower` is cached)."""
    for node in nodes(tree):
        if not isinstance(node, TypeTree):
            raise TypeError(f"not a type of type_tree: {node!r}")
    hash(tree)


def _checked_layout(row: Serializer, distribution: str) -> Callable[[Body], None]:
    def layout(body: Body) -> None:
        with _faults_as_errors(row, distribution, "cannot read the body of a snapshot"):
            row.layout(body)
            row.name.format_map(dict(body.attributes))

    return layout


def _checked_values(
    row: Serializer, make_tree: Callable[[SerializerSnapshot, TreeOf], TypeTree | None], distribution: str
) -> Callable[[SerializerSnapshot, TreeOf], TypeTree | None]:
    def checked(snapshot: SerializerSnapshot, tree_of: TreeOf) -> TypeTree | None:
        with _faults_as_errors(row, distribution, "does not return the tree of its values"):
            tree = make_tree(snapshot, tree_of)
            _check_tree(tree)
        return tree

    return checked


@contextmanager
def _faults_as_errors(row: Serializer, distribution: str, what: str) -> Iterator[None]:
    try:
        yield
    except RescaleError:
        raise
    except Exception as error:  # user code can fail in any way
        raise RequestError(
            f"the row of {row.snapshot} that {distribution} registers {what}",
            found=f"{type(error).__name__}: {error}",
            advice=f"correct or uninstall {distribution}",
        ) from error
