"""Amounts of memory as Kubernetes writes them."""

import re
from decimal import Decimal

from fulmen.errors import FulmenError

_FACTORS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** n for n, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** n for n, unit in enumerate("KMGTPE", 1)},
}


def mebibytes(quantity: str) -> int:
    """Whole MiB of a quantity such as `1536Mi`, `2Gi`, `2G` or `2147483648`.

    Raises:
        FulmenError: It is not one.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)([a-zA-Z]*)", quantity.strip())
    if not found or found[2] not in _FACTORS:
        raise FulmenError(f"'{quantity}' is not an amount of memory. Write one like '1536Mi'.")
    return int(Decimal(found[1]) * _FACTORS[found[2]] / (1024 * 1024))
