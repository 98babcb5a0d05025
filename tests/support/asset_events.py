"""Asset events as a task gets them: by asset, which in Airflow 3.1 cannot be the key of a dictionary."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow.sdk import Asset


class AssetEvents:
    """Events by asset; events of an outlet have the attributes that a task sets."""

    def __init__(self, *assets: Asset, event: Any = None) -> None:
        self._by_name = {asset.name: SimpleNamespace() if event is None else event for asset in assets}

    def __getitem__(self, asset: Asset) -> Any:
        return self._by_name[asset.name]

    def values(self) -> list[Any]:
        return list(self._by_name.values())
