"""Amounts as Kubernetes writes them."""

from decimal import Decimal

import pytest

from fulmen.errors import FulmenError
from fulmen.topology.resource.quantity import amount, mebibytes


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("1536Mi", 1536),
        ("2Gi", 2048),
        ("1.5Gi", 1536),
        (".5Gi", 512),
        ("2G", 1907),
        ("2147483648", 2048),
        ("2e9", 1907),
        ("2000000k", 1907),
        ("1073741824000m", 1024),
    ],
)
def test_memory(quantity, expected):
    assert mebibytes(quantity) == expected


@pytest.mark.parametrize(("quantity", "cores"), [("500m", "0.5"), ("2", "2"), ("1500000u", "1.5")])
def test_cpu(quantity, cores):
    assert amount(quantity) == Decimal(cores)


@pytest.mark.parametrize(
    "text",
    ["", "much", "2GB", "2 Gi", "-1Gi", "1.2.3", "Gi", "٣Gi", "1e999999999", "1e-100", "1e100Gi"],
)
def test_what_is_no_quantity(text):
    assert amount(text) is None


def test_what_is_no_memory():
    with pytest.raises(FulmenError) as caught:
        mebibytes("much")
    assert str(caught.value) == "'much' is not an amount of memory. Write one like '1536Mi'."
