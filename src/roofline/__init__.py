"""roofline: what limits a large language model on a device, kernel by kernel.

>>> import roofline as rl
>>> model, device = rl.Model.load("Qwen/Qwen3-8B"), rl.Device.load("h100-sxm")
>>> ledger = rl.predict(model, device, rl.Workload.decode(sequences=64, context=8192))
>>> ledger.total.bound
'memory'
"""

from typing import TYPE_CHECKING, Any

from roofline import collectives, ops
from roofline.bound import Bound, Point, place
from roofline.capacity import Memory, memory
from roofline.cost import Cost, Work
from roofline.crossing import crossovers
from roofline.device import Device, Topology
from roofline.diagnosis import diagnose
from roofline.errors import RooflineError
from roofline.ledger import Ledger, predict
from roofline.model import Model
from roofline.shard import Shard
from roofline.workload import Precision, Workload

if TYPE_CHECKING:
    from roofline.show import charts

__all__ = [
    "Bound",
    "Cost",
    "Device",
    "Ledger",
    "Memory",
    "Model",
    "Point",
    "Precision",
    "RooflineError",
    "Shard",
    "Topology",
    "Work",
    "Workload",
    "charts",
    "collectives",
    "crossovers",
    "diagnose",
    "memory",
    "ops",
    "place",
    "predict",
]


def __getattr__(name: str) -> Any:
    """`charts` is there when it is asked for: a prediction draws nothing."""
    if name == "charts":
        from importlib import import_module

        return import_module("roofline.show.charts")
    raise AttributeError(f"module 'roofline' has no attribute {name!r}")
