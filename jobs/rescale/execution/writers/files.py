"""Files of new streams: their names and uploads, and the sizes and receipts of the uploads' parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from rescale.execution.progress import Progress
from rescale.plan.new_streams import NewStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.storage.contract import PartLimits
from rescale.storage.store import open_store

_SEPARATOR = "\n"
_COMPRESSION_LEVEL = 1


def stream_uri(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    """Return the URI of a new stream's file in the target."""
    return places_of(plan).stream(plan.file_name(operator, stream))


def begin_upload(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    """Abort an earlier attempt's upload of a stream, begin a new upload, and return its id."""
    uri = stream_uri(plan, operator, stream)
    store = open_store(uri)
    store.abort_parts(uri)
    return store.begin_parts(uri, places_of(plan).staging)


def part_limits(plan: Plan) -> PartLimits:
    """Return the limits that the target's store sets for parts."""
    return open_store(plan.target).part_limits


def part_size(plan: Plan, size: int) -> int:
    """Return the part size for a file of about `size` bytes: the planned one, or a larger one for a large file.

    The file has at most half of the number of parts that the store allows, since a range may end with a smaller part,
    and `size` may be an estimate.
    """
    return max(plan.part_size, -(-size // (part_limits(plan).most_parts // 2)))


def number_of_parts(size: int, size_of_parts: int) -> int:
    """Return the number of parts of `size_of_parts` bytes for `size` bytes.

    The last part may be almost twice as large, so that no part is small.
    """
    return max(1, size // size_of_parts) if size else 0


def pack_receipts(receipts: Sequence[str]) -> bytes:
    """Compress receipts of parts: the driver may hold more than a million, and strings take ten times the memory."""
    return zlib.compress(_SEPARATOR.join(receipts).encode(), _COMPRESSION_LEVEL)


def unpack_receipts(receipts: bytes) -> list[str]:
    """Unpack at least one receipt that `pack_receipts` has packed."""
    return zlib.decompress(receipts).decode().split(_SEPARATOR)


def report_refused_copies(progress: Progress, refusals: Iterable[str]) -> None:
    """Report in the progress, once, that the store refused copies.

    `refusals` has the store's reason for each copy; "" for a copy that the store made.
    """
    if reasons := sorted({reason for reason in refusals if reason}):
        progress.say(f"the store does not copy objects itself, so the tasks read and write them: {reasons[0]}")
