"""The trigger on new checkpoints: what is new, faults of Flink, and an asset that watches it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.serialization import serialized_objects

from rescale.airflow import CheckpointTrigger
from rescale.text.errors import StoreError

PLACE = {"flink": "http://127.0.0.1:9", "job": "clicks"}


def checkpoint(number: int) -> dict[str, Any]:
    return {"checkpoint": f"/checkpoints/chk-{number}", "id": number, "job": "1" * 32}


def fired(trigger: CheckpointTrigger, answers: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the checkpoints for which the trigger fires if Flink gives these answers."""
    remaining = iter(answers)

    def newest(*_: str) -> Any:
        answer = next(remaining, LookupError())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run() -> list[int]:
        checkpoint_numbers = []
        try:
            async for event in trigger.run():
                checkpoint_numbers.append(event.payload["id"])
        except LookupError:
            return checkpoint_numbers
        raise AssertionError("the trigger ended")

    monkeypatch.setattr("rescale.airflow.public.checkpoint_trigger.newest_checkpoint", newest)
    return asyncio.run(run())


@pytest.mark.parametrize(
    ("after", "answers", "expected"),
    [
        (None, [checkpoint(4), checkpoint(4), checkpoint(5), checkpoint(7), checkpoint(7)], [5, 7]),
        (None, [None, checkpoint(1), None, checkpoint(1), checkpoint(2)], [1, 2]),  # the job was started again
        (None, [StoreError("Flink cannot be reached"), checkpoint(4), checkpoint(5)], [5]),
        (None, [checkpoint(4), StoreError("Flink cannot be reached"), checkpoint(5)], [5]),
        ("/checkpoints/chk-4", [checkpoint(4), checkpoint(5)], [5]),
        ("/checkpoints/chk-4", [checkpoint(5)], [5]),  # completed before the triggerer started
        ("", [checkpoint(1)], [1]),
    ],
)
def test_trigger_fires_once_for_each_new_checkpoint(
    after: str | None, answers: list[Any], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fired(CheckpointTrigger(**PLACE, period=0, after=after), answers, monkeypatch) == expected


def test_trigger_waits_for_an_unreachable_flink() -> None:
    async def wait() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(CheckpointTrigger(**PLACE, period=0.1).run()), 2)

    asyncio.run(wait())


def test_asset_can_watch_the_trigger() -> None:
    trigger = CheckpointTrigger(**PLACE)
    with DAG("a-dag", schedule=[Asset("checkpoints", watchers=[AssetWatcher(name="flink", trigger=trigger)])]) as dag:
        pass
    name = "DagSerialization" if hasattr(serialized_objects, "DagSerialization") else "SerializedDAG"  # Airflow 3.1
    document = str(getattr(serialized_objects, name).to_dict(dag))
    assert trigger.serialize()[0] in document
    name, arguments = trigger.serialize()
    assert CheckpointTrigger(**arguments).serialize() == (name, arguments)
