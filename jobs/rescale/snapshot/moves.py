"""Finds the moved files of a snapshot that was copied to another place: the handles still name their old places.

Flink writes absolute paths into `_metadata` for every file of an incremental or merged checkpoint
(`MetadataV2V3SerializerBase.serializeStreamStateHandle`), and a copy of the job's directory keeps them. A `Move` maps
an old directory to the new one.

The user names a move, or this module finds it. A move that the module finds must meet three conditions:

* No file is left at the old place, where Flink would read it.
* A file of the right size lies at the same relative path below the directory that the user named, or below its job's
  directory.
* No second place fits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rescale.flink.metadata.handles import FileStream, KeyGroupsStream, SegmentStream, Stream
from rescale.storage.locations import contains, is_s3, join, name, normalise, parent
from rescale.storage.store import stats_of
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, RescaleError, SnapshotError

_CHECKPOINT_DIRECTORY = re.compile(r"chk-[0-9]+")
_JOB_DIRECTORIES = ("shared", "taskowned")
"""Directories next to the `chk-N` directories of a job (`AbstractFsCheckpointStorageAccess`)."""

_EQUALS_BEFORE_PLACE = re.compile(r"=(?=/|[A-Za-z][A-Za-z0-9+.-]*:)")


class Move(NamedTuple):
    """Two directories: files that handles place below `old` are read from below `new`."""

    old: str
    new: str


class FileSize(NamedTuple):
    """Size of a file in bytes, or a lower bound if several handles share the file."""

    size: int
    is_exact: bool

    def fits(self, size: int) -> bool:
        """Tell whether a file of `size` bytes may be the file whose size is recorded here."""
        return size == self.size if self.is_exact else size >= self.size


def is_checkpoint_directory(directory: str) -> bool:
    """Tell whether the name of a directory is that of a checkpoint: `chk-N`."""
    return _CHECKPOINT_DIRECTORY.fullmatch(name(directory)) is not None


def normalised_place(path: str) -> str:
    """Return the normalised path of a place, even if Rescale cannot read its file system."""
    try:
        return normalise(path)
    except RequestError:
        return path.rstrip("/")


def is_readable(place: str) -> bool:
    """Tell whether a place is in a file system that Rescale can read: local files or S3."""
    return place.startswith("/") or is_s3(place)


def parse_moves(texts: Iterable[str]) -> tuple[Move, ...]:
    """Parse texts `OLD=NEW`. Raises `RequestError` if one is malformed, or if an old place has two new places."""
    moves: dict[str, Move] = {}
    for text in texts:
        equals_positions = [match.start() for match in _EQUALS_BEFORE_PLACE.finditer(text)]
        if text.count("=") == 1:
            equals_positions = [text.index("=")]
        if len(equals_positions) != 1 or not text[: equals_positions[0]] or not text[equals_positions[0] + 1 :]:
            raise RequestError(
                "not a move of a snapshot's files",
                expected="OLD=NEW, such as hdfs://namenode/checkpoints=s3://bucket/checkpoints",
                found=text,
            )
        move = Move(normalised_place(text[: equals_positions[0]]), normalise(text[equals_positions[0] + 1 :]))
        if moves.setdefault(move.old, move) != move:
            raise RequestError(
                "an old place has two new places", path=move.old, expected=moves[move.old].new, found=move.new
            )
    return tuple(moves.values())


def moved_place(path: str, moves: Iterable[Move]) -> str | None:
    """Return the new place of a file, by the matching move with the longest old place; None if no move matches."""
    applying_moves = [move for move in moves if contains(move.old, path)]
    return _place_after_move(path, max(applying_moves, key=lambda move: len(move.old))) if applying_moves else None


def find_moves(
    streams: Iterable[Stream | None], metadata_uri: str, directory: str, known_moves: Sequence[Move]
) -> tuple[Move, ...]:
    """Return the moves of files that lie below `directory` or its job's directory and are gone from their old place.

    `streams` are the streams that all handles name; files of `known_moves` are left out. Raises `SnapshotError` if a
    file may be at either of two places.
    """
    snapshot_root = parent(directory) if is_checkpoint_directory(directory) else directory
    recorded_sizes = {
        path: size
        for path, size in _recorded_sizes(streams).items()
        if not contains(snapshot_root, path) and moved_place(path, known_moves) is None
    }
    moves_by_path = {path: list(_possible_moves(path, directory)) for path in recorded_sizes}
    existing_sizes = _existing_sizes(
        {_place_after_move(path, move) for path, possible_moves in moves_by_path.items() for move in possible_moves}
    )
    chosen_move_by_path: dict[str, Move] = {}
    for path, possible_moves in moves_by_path.items():
        fitting_move_by_place = {
            place: move
            for move in reversed(possible_moves)
            if (size := existing_sizes.get(place := _place_after_move(path, move))) is not None
            and recorded_sizes[path].fits(size)
        }
        if len(fitting_move_by_place) > 1:
            raise _ambiguous_places_error(metadata_uri, path, fitting_move_by_place)
        chosen_move_by_path |= dict.fromkeys((path,) if fitting_move_by_place else (), *fitting_move_by_place.values())
    accepted_moves = tuple(
        sorted(
            {move for move in chosen_move_by_path.values() if not _old_files_remain(move, recorded_sizes, directory)}
        )
    )
    for path, move in chosen_move_by_path.items():
        new_place = moved_place(path, accepted_moves)
        if move in accepted_moves and new_place not in (None, _place_after_move(path, move)):
            raise _ambiguous_places_error(metadata_uri, path, (_place_after_move(path, move), str(new_place)))
    return accepted_moves


def _recorded_sizes(streams: Iterable[Stream | None]) -> dict[str, FileSize]:
    """Return the recorded sizes of the files that absolute handles name, by path."""
    recorded_sizes: dict[str, FileSize] = {}
    for stream in streams:
        while isinstance(stream, KeyGroupsStream):
            stream = stream.stream
        if isinstance(stream, FileStream):
            recorded_sizes[normalised_place(stream.path)] = FileSize(stream.size, is_exact=True)
        elif isinstance(stream, SegmentStream):
            path, end = normalised_place(stream.path), stream.start + stream.size
            recorded_size = recorded_sizes.get(path, FileSize(0, is_exact=False))
            recorded_sizes[path] = (
                recorded_size if recorded_size.is_exact else FileSize(max(recorded_size.size, end), is_exact=False)
            )
    return recorded_sizes


def _possible_moves(path: str, directory: str) -> Iterator[Move]:
    """Yield moves that place a file below the directory that the user named; moves of a whole job come first."""
    segments = path.split("/")
    if {".", ".."} & set(segments):
        return
    if is_checkpoint_directory(directory):
        for i, segment in enumerate(segments[:-1]):
            if segment in (name(directory), *_JOB_DIRECTORIES):
                yield Move("/".join(segments[:i]) or "/", parent(directory))
    yield Move("/".join(segments[:-1]) or "/", directory)


def _place_after_move(path: str, move: Move) -> str:
    place = join(move.new, path[len(move.old) :].lstrip("/"))
    if not contains(move.new, place):
        raise SnapshotError("a handle points outside the snapshot", path=path, expected=f"below {move.old}")
    return place


def _existing_sizes(uris: Collection[str]) -> dict[str, int]:
    return {uri: pin.size for uri, pin in stats_of(sorted(uris)).items() if pin is not None}


def _old_files_remain(move: Move, recorded_sizes: Mapping[str, FileSize], directory: str) -> bool:
    """Tell whether files are still at the old place, or may be, because reading the old place fails.

    Returns False without a look if Rescale cannot read the file system of the old place, or if the snapshot is in S3
    and the old place is local.
    """
    old_paths = [path for path in recorded_sizes if contains(move.old, path)]
    if not all(map(is_readable, old_paths)) or (is_s3(directory) and not any(map(is_s3, old_paths))):
        return False
    try:
        return bool(_existing_sizes(old_paths))
    except RescaleError:
        return True


def _ambiguous_places_error(metadata_uri: str, path: str, places: Iterable[str]) -> SnapshotError:
    return SnapshotError(
        "a moved file of the snapshot may be at either of two places",
        path=metadata_uri,
        expected=path,
        found=" and ".join(sorted(places)),
        advice=Advice("give the new place of the files: ", mention("moved", "OLD=NEW")),
    )
