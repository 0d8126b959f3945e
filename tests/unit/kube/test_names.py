"""Names of objects: clusters are full of them, so none may change."""

import inspect

import pytest

from fulmen.kube import names

EXPECTED = [
    ("shop-revision", names.revision("shop")),
    ("shop-code-0a1b", names.code("shop", "0a1b")),
    (["shop-code-0a1b"], names.code_maps("shop-code-0a1b", 0)),
    (["shop-code-0a1b-1", "shop-code-0a1b-2"], names.code_maps("shop-code-0a1b", 2)),
    ("shop-candidate", names.candidate("shop")),
    ("shop-auth-2", names.auth_secret("shop", 2)),
    ("shop-checkpoint", names.claim("shop")),
    ("shop", names.network_policy("shop")),
    ("shop.driver", names.driver_network_policy("shop")),
    ("shop.clients", names.clients_network_policy("shop")),
    ("shop", names.service("shop")),
    ("shop-worker", names.service_account("shop", "worker")),
    ("shop-driver", names.driver_role("shop")),
    ("shop-driver-2", names.driver_pod("shop", 2)),
    ("shop-worker", names.worker_template("shop")),
    ("shop-worker-probe", names.worker_probe("shop")),
    ("shop-preflight-0123456789", names.preflight_pod("shop", "0123456789ab")),
    ("shop-driver-2-trial", names.for_dry_run("shop-driver-2")),
    ("shop-2", names.app_id("shop", 2)),
    (("driver", "2"), names.role_of_pod("shop", names.driver_pod("shop", 2))),
    (("worker", "2"), names.role_of_pod("shop", f"{names.app_id('shop', 2)}-exec-11")),
    (("preflight", ""), names.role_of_pod("shop", names.preflight_pod("shop", "0123456789ab"))),
    (("", ""), names.role_of_pod("shop", "shop-cart-driver-2")),
]


@pytest.mark.parametrize(("expected", "made"), EXPECTED)
def test_an_upgrade_finds_objects_by_the_names_that_they_have(expected, made):
    assert made == expected


def test_each_name_is_tested():
    functions = [n for n, _ in inspect.getmembers(names, inspect.isfunction)]
    tested = inspect.getsource(inspect.getmodule(test_each_name_is_tested))
    assert [name for name in functions if f"names.{name}(" not in tested] == []


def test_the_digest_of_code_is_in_its_name():
    assert names.code_digest("shop", names.code("shop", "0a1b")) == "0a1b"
    parts = names.code_maps(names.code("shop", "0a1b"), 2)
    assert {names.code_digest("shop", part) for part in parts} == {"0a1b"}
    assert names.code_digest("shop", "shop-candidate") is None
    assert names.code_digest("shop", "shopping-code-0a1b") is None
