"""Description of this package as a provider, found by its entry point and shown by `airflow providers list`."""

from __future__ import annotations

from typing import Any

_NAME = "Rescale"


def get_provider_info() -> dict[str, Any]:
    """Return the description that Airflow reads (`provider_info.schema.json`)."""
    return {
        "package-name": "flink-rescale",
        "name": _NAME,
        "description": "Change the shape of an Apache Flink job's state between two runs of the job",
        "integrations": [{"integration-name": _NAME, "tags": ["service"]}],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    f"rescale.airflow.public.{module}"
                    for module in (
                        "discard_operator",
                        "hand_over_operator",
                        "rescale_operator",
                        "take_checkpoint_operator",
                        "take_savepoint_operator",
                    )
                ],
            }
        ],
        "sensors": [{"integration-name": _NAME, "python-modules": ["rescale.airflow.public.checkpoint_sensor"]}],
        "triggers": [{"integration-name": _NAME, "python-modules": ["rescale.airflow.public.checkpoint_trigger"]}],
    }
