"""The Airflow side: what other DAGs import, and the forms and tasks of our own DAGs.

The names in `__all__` are stable. Each of them is imported on first use, so importing this package costs nothing:

    from rescale.airflow import RescaleOperator, rescale_task_group

Only this package and the demo import Airflow. Parsing a DAG imports neither Spark nor boto3: separate processes move
the state, and the tasks import storage clients when they run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rescale.airflow.assets import RESCALED_SAVEPOINT
    from rescale.airflow.public.checkpoint_sensor import CheckpointSensor
    from rescale.airflow.public.checkpoint_trigger import CheckpointTrigger
    from rescale.airflow.public.discard_operator import DiscardOperator
    from rescale.airflow.public.hand_over_operator import HandOverOperator
    from rescale.airflow.public.rescale_operator import RescaleOperator
    from rescale.airflow.public.take_checkpoint_operator import TakeCheckpointOperator
    from rescale.airflow.public.take_savepoint_operator import TakeSavepointOperator
    from rescale.airflow.public.task_group import rescale_task_group

__all__ = [
    "RESCALED_SAVEPOINT",
    "CheckpointSensor",
    "CheckpointTrigger",
    "DiscardOperator",
    "HandOverOperator",
    "RescaleOperator",
    "TakeCheckpointOperator",
    "TakeSavepointOperator",
    "rescale_task_group",
]

_MODULES = {
    "RESCALED_SAVEPOINT": "assets",
    "CheckpointSensor": "public.checkpoint_sensor",
    "CheckpointTrigger": "public.checkpoint_trigger",
    "DiscardOperator": "public.discard_operator",
    "HandOverOperator": "public.hand_over_operator",
    "RescaleOperator": "public.rescale_operator",
    "TakeCheckpointOperator": "public.take_checkpoint_operator",
    "TakeSavepointOperator": "public.take_savepoint_operator",
    "rescale_task_group": "public.task_group",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
