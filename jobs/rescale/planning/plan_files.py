"""Numbers of the files that a plan reads: their indexes in the plan's `files`."""

from __future__ import annotations

from rescale.plan.plan import Plan
from rescale.plan.prepared_files import SourceFile
from rescale.snapshot.model import Snapshot
from rescale.storage.contract import Pin
from rescale.text.errors import RequestError


class PlanFiles:
    """The files of a plan, with those of other snapshots that it reads, each once."""

    def __init__(self, plan: Plan) -> None:
        self._files = list(plan.files)
        self._numbers = {file.uri: number for number, file in enumerate(plan.files)}

    def numbers_of(self, snapshot: Snapshot) -> list[int]:
        """Return the number of each file of the snapshot, in order."""
        return [self.number_of(uri, pin) for uri, pin in snapshot.files]

    def number_of(self, uri: str, pin: Pin) -> int:
        """Return the number of a file, and add the file if the plan does not have it yet."""
        if uri not in self._numbers:
            self._numbers[uri] = len(self._files)
            self._files.append(SourceFile(uri, pin))
        elif not pin.matches(self._files[self._numbers[uri]].pin):
            raise RequestError(
                "a file changed while the plan was made",
                path=uri,
                expected=self._files[self._numbers[uri]].pin,
                found=pin,
                advice="make sure that nothing writes to the source, and plan again",
            )
        return self._numbers[uri]

    def source_files(self) -> tuple[SourceFile, ...]:
        """Return all files, in the order of their numbers."""
        return tuple(self._files)
