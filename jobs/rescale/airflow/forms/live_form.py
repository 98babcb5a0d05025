"""Fields of the form for a rescale while the job runs, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec
from airflow.sdk import Param

from rescale.airflow.forms.filled_form import is_set, option_values_of
from rescale.airflow.forms.form import Form, choice_field, flag_field, line_field
from rescale.flink_rest.client import StopMode
from rescale.options.rows import OPTIONS, ROUND_OPTION_NAMES
from rescale.planning.request.result_files import Files
from rescale.text.errors import RequestError

_SECTION = "While it runs"
_SECONDS_PER_HOUR = 3600
_GIVE_UP_SECONDS = 300


class CutOverRule(StrEnum):
    """Rule for the time at which the job is cancelled and started in its new shape."""

    READY = "when ready"
    APPROVED = "when approved"


_LABEL_BY_RULE = {
    CutOverRule.READY: "when ready: as soon as the last round is short enough",
    CutOverRule.APPROVED: "when approved: a question shows the rounds, and waits for an answer",
}


class LiveRequest(msgspec.Struct, frozen=True):
    """Request to rescale a job while it runs: the values of the form's fields.

    `most_bytes_per_second` is in bytes a second, all durations are in seconds, and None means no limit. With
    `refers_to_source`, the result refers to the files of the job's last checkpoint, and no state is moved.
    """

    refers_to_source: bool
    cut_over_rule: CutOverRule
    not_before: datetime | None
    most_downtime_seconds: float | None
    give_up_seconds: float
    most_bytes_per_second: int | None


def live_fields() -> Form:
    """Return the Params of a rescale while the job runs."""
    return {
        "while_it_runs": flag_field(
            title="Move the state while the job runs",
            section=_SECTION,
            description_md="Moves all state once, and then what changes, checkpoint after checkpoint, while the job "
            "runs. At the end the job is cancelled, and stands still for the last changes only. Needs RocksDB with "
            'incremental checkpoints that are kept on cancellation, "checkpoint, then cancel" under *What becomes of '
            "the job*, and a hand-over that starts the job. If no max parallelism changes, files of RocksDB are copied "
            'ahead, and there are no rounds; with "refer" under *Files of RocksDB*, nothing is moved.',
        ),
        "cut_over": choice_field(
            _LABEL_BY_RULE,
            title="Cut over",
            section=_SECTION,
            description_md="When the job is cancelled and started in its new shape. With an approval, the rounds go on "
            "while the question waits.",
        ),
        "not_before": Param(
            None,
            type=["null", "string"],
            format="date-time",
            title="Not before",
            section=_SECTION,
            description_md="The earliest time for the cut-over. Rounds go on until then.",
        ),
        "most_downtime": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            maximum=_SECONDS_PER_HOUR,
            title="Most seconds for the last round",
            section=_SECTION,
            description_md="The job is not cancelled while the last round would take longer. Restarting the job "
            "takes additional time. Empty: no limit; the job is cancelled when rounds no longer get shorter.",
        ),
        "give_up_after": Param(
            _GIVE_UP_SECONDS,
            type=["null", "number"],
            exclusiveMinimum=0,
            maximum=_SECONDS_PER_HOUR,
            title="Seconds after which the job is started with its old shape",
            section=_SECTION,
            description_md="If the job does not run in its new shape within this time after it was cancelled, it is "
            "started again from its last checkpoint, with its old shape.",
        ),
        "verify_after": Param(
            True,
            type=["boolean", "null"],
            title="Compare all records afterwards",
            section=_SECTION,
            description_md="While the new job runs, every record of the result is compared with the old job's last "
            "checkpoint. The rounds prove the changed records; this reads all state once more.",
        ),
        "pause_above": line_field(
            title="Most bytes a second",
            section=_SECTION,
            description_md="Pauses after a round until the average rate of bytes read and written is at most this, "
            "such as `500MB/s`.",
        ),
    }


def live_request_of(params: Mapping[str, Any]) -> LiveRequest | None:
    """Return the values of a filled form, or None if the form wants the job to be stopped first.

    Raises `RequestError` for a value that is only possible if the job is stopped first.
    """
    if not params["while_it_runs"]:
        return None
    if params["taking"] != StopMode.CHECKPOINT:
        raise RequestError(
            "a job whose state is moved while it runs is cancelled after a checkpoint",
            option='"What becomes of the job"',
            expected=StopMode.CHECKPOINT.value,
            found=params["taking"],
            advice=f'choose {StopMode.CHECKPOINT.value!r}, or switch "Move the state while the job runs" off',
        )
    present_rows = [row for row in OPTIONS if row.field.name in params and "follow" not in row.commands]
    stopped_only_rows = [row for row in present_rows if row.name not in ("proof", "files")]
    if set_fields := [row.field.title for row in stopped_only_rows if is_set(row, params)]:
        raise RequestError(
            "only the shape can change while the job runs",
            expected=f"none of {', '.join(row.field.title for row in stopped_only_rows)}",
            found=", ".join(set_fields),
            advice='switch "Move the state while the job runs" off; or rescale first, and change the rest afterwards',
        )
    from rescale.insight.cluster import rate_of

    rate = rate_of(params["pause_above"], '"Most bytes a second"') if params["pause_above"] else None
    return LiveRequest(
        params["files"] == Files.REFER,
        CutOverRule(params["cut_over"] or CutOverRule.READY),
        _instant(params["not_before"]),
        params["most_downtime"],
        params["give_up_after"] or _GIVE_UP_SECONDS,
        rate,
    )


def followed_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options that stay the same in all rounds of a rescale, by option name."""
    option_values = option_values_of(params)
    names = (*ROUND_OPTION_NAMES, "files") if option_values["files"] == Files.REFER else ROUND_OPTION_NAMES
    return {name: option_values[name] for name in names}


def _instant(text: str | None) -> datetime | None:
    instant = datetime.fromisoformat(text) if text else None
    return instant.replace(tzinfo=UTC) if instant is not None and instant.tzinfo is None else instant
