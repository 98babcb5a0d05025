"""
### Do something after every rescale

Runs whenever a result is published, by whichever DAG. The event has the URI and the shape of the result.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from rescale.airflow import RESCALED_SAVEPOINT

with DAG("example_after_a_rescale", schedule=[RESCALED_SAVEPOINT], doc_md=__doc__) as dag:

    @task
    def results(triggering_asset_events: Any = None) -> list[str]:
        """Returns the URIs of the results that were published since the last run."""
        events = triggering_asset_events[RESCALED_SAVEPOINT]
        for event in events:
            print(f"{event.extra['source']} was rescaled to {event.extra['uri']}: {event.extra['shape']}")
        return [event.extra["uri"] for event in events]

    results()
