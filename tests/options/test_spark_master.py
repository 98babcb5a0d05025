"""Kind of Spark's master, read from its URL."""

from __future__ import annotations

import os

import pytest

from rescale.options.spark_master import LocalMaster, is_master_url, is_on_this_machine, local_master

LOCAL_MASTERS = {
    "local": LocalMaster("1", None),
    "local[3]": LocalMaster("3", None),
    "local[*]": LocalMaster("*", None),
    "local[3,4]": LocalMaster("3", "4"),
    "local[* , 4]": LocalMaster("*", "4"),
}
CLUSTER_URLS = ["yarn", "spark://host:7077", "k8s://https://host:6443"]
INVALID_URLS = [
    "",
    "locale",
    "local[]",
    "local[x]",
    "local[0]",
    "local[٣]",
    "local[99999999999]",
    "local[2,0]",
    "local[2",
    "local[2,*]",
    "local-cluster",
    "k8s://",
    "https://host",
    "local yarn",
]


@pytest.mark.parametrize(("url", "master"), LOCAL_MASTERS.items())
def test_local_master_has_its_number_of_threads(url: str, master: LocalMaster) -> None:
    assert local_master(url) == master
    assert master.cores == {"1": 1, "3": 3}.get(master.threads, os.cpu_count())
    assert is_on_this_machine(url)
    assert is_master_url(url)


def test_local_cluster_is_on_this_machine_but_is_no_local_master() -> None:
    url = "local-cluster[2,1,1024]"
    assert (local_master(url), is_on_this_machine(url), is_master_url(url)) == (None, True, True)


@pytest.mark.parametrize("url", CLUSTER_URLS)
def test_cluster_is_not_on_this_machine(url: str) -> None:
    assert (local_master(url), is_on_this_machine(url), is_master_url(url)) == (None, False, True)


@pytest.mark.parametrize("url", INVALID_URLS)
def test_unknown_master_is_refused(url: str) -> None:
    assert (local_master(url), is_on_this_machine(url), is_master_url(url)) == (None, False, False)


def test_missing_master_is_unknown() -> None:
    assert (local_master(None), is_on_this_machine(None)) == (None, False)
