"""Amounts as Kubernetes writes them."""

import re
from decimal import Decimal

from fulmen.errors import FulmenError

_QUANTITY = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)([a-zA-Z]*)", re.ASCII)
_FACTORS = {
    "": Decimal(1),
    **{unit: Decimal(1000) ** -n for n, unit in enumerate("mun", 1)},
    **{unit: Decimal(1000) ** n for n, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** n for n, unit in enumerate("KMGTPE", 1)},
}


def amount(quantity: str) -> Decimal | None:
    """The number that a quantity such as `500m`, `1536Mi`, `2G` or `2e9` is; None if it is none."""
    found = _QUANTITY.fullmatch(quantity)
    if not found or found[2] not in _FACTORS:
        return None
    return Decimal(found[1]) * _FACTORS[found[2]]


def times(quantity: str, factor: int) -> str:
    """Multiply a quantity, in its own unit. ValueError if it is none."""
    found = _QUANTITY.fullmatch(quantity)
    if not found:
        raise ValueError(f"'{quantity}' is not a quantity")
    return quantity if factor == 1 else f"{Decimal(found[1]) * factor:f}{found[2]}"


def mebibytes(quantity: str) -> int:
    """An amount of memory in whole MiB.

    Raises:
        FulmenError: It is not one.
    """
    found = amount(quantity)
    if found is None:
        raise FulmenError(f"'{quantity}' is not an amount of memory. Write one like '1536Mi'.")
    return int(found / (1024 * 1024))
