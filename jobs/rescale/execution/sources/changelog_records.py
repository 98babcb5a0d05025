"""Records of a changelog: its materialised state, with the later changes replayed over it.

The result is the state that Flink would have after a restore, so callers need not know about logs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from rescale.execution.sources.log_windows import LogWindows
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.changelog.overlay import Overlay
from rescale.flink.keyed.header import KeyedHeader
from rescale.snapshot.keyed_state import ChangeSet
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import SnapshotError, UnsupportedError

Windows = Sequence[KeyGroupRange]
WindowedRecords = Generator[Iterator[Records], None, None]
BaseParts = Callable[[Windows], Sequence[WindowedRecords]]
"""Takes ranges of key groups, the windows. Returns a generator for each part of the materialised state.

The generator yields, for each window, an iterator over the records in it, to be exhausted before the next window.
"""


@dataclass(frozen=True)
class ChangelogRecords:
    """Reads a changelog's records, with the state ids of `header`, which lists all states."""

    header: KeyedHeader
    max_parallelism: int
    files: SnapshotFiles
    changes: Sequence[ChangeSet]
    key_groups: KeyGroupRange
    base: BaseParts

    def __iter__(self) -> Iterator[Records]:
        """Yield batches of records; errors name the file, or the log's first file if a change cannot be read."""
        windows = LogWindows(self.files, self.changes, self.header, self.key_groups)
        with ExitStack() as stack:
            cut_windows = stack.enter_context(windows.cut())
            parts = [stack.enter_context(closing(part)) for part in self.base([window for window, _ in cut_windows])]
            for _, changes in cut_windows:
                with self._located_in_log():
                    overlay = Overlay(list(changes), self.header, self.max_parallelism)
                for part in parts:
                    for records in next(part):
                        yield from self._with_log_in_errors(overlay.apply_to(records))
                yield from self._with_log_in_errors(overlay.remaining())

    def check_all_read(self, framed_bytes: int) -> None:
        """Check nothing, because materialised state is checked while it is read, and a log marks its end."""

    def _with_log_in_errors(self, overlaid: Iterator[Records]) -> Iterator[Records]:
        with self._located_in_log():
            yield from overlaid

    @contextmanager
    def _located_in_log(self) -> Iterator[None]:
        """Add the log's first file to errors of the block."""
        try:
            yield
        except (SnapshotError, UnsupportedError) as error:
            raise error.located(path=self.files.uri(self.changes[0].extent)) from None
