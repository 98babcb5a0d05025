"""The options that only the command `rescale follow` has; they are no options of a request, and no form has them."""

from __future__ import annotations

from rescale.options.option import NO_FIELD, Option, OptionKind

FOLLOW_OPTIONS = (
    Option(
        "finish",
        OptionKind.FLAG,
        "after the job was cancelled: make a last round from its newest checkpoint, validate and publish the result, "
        "and remove the follower's files beside the target",
        ("follow",),
        NO_FIELD,
        "--finish",
    ),
    Option(
        "max-rounds",
        OptionKind.VALUE,
        "end after N rounds; 0 only makes the base. Without it, a follower runs until it is stopped",
        ("follow",),
        NO_FIELD,
        "--max-rounds 20",
        metavar="N",
    ),
    Option(
        "publish-every",
        OptionKind.VALUE,
        "publish a copy of every N-th round as a snapshot of its own, for example TARGET-17 for checkpoint 17",
        ("follow",),
        NO_FIELD,
        "--publish-every 10",
        metavar="N",
    ),
    Option(
        "pause-above",
        OptionKind.VALUE,
        "pause after a round until the average rate of bytes read and written is at most RATE, such as 500MB/s",
        ("follow",),
        NO_FIELD,
        "--pause-above 500MB/s",
        metavar="RATE",
    ),
)
