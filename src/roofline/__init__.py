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
from roofline.device import Device, Topology
from roofline.errors import RooflineError
from roofline.ledger import Ledger, predict
from roofline.measurement import measure
from roofline.model import Model
from roofline.shard import Shard
from roofline.workload import Precision, Workload

if TYPE_CHECKING:
    from roofline.checkpoints import checkpoint
    from roofline.crossing import crossovers
    from roofline.diagnosis import diagnose
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
    "checkpoint",
    "collectives",
    "crossovers",
    "diagnose",
    "measure",
    "memory",
    "ops",
    "place",
    "predict",
]


# Loaded when they are asked for: a prediction draws nothing, and asks nothing else.
_LATER = {
    "charts": "roofline.show.charts",
    "checkpoint": "roofline.checkpoints",
    "crossovers": "roofline.crossing",
    "diagnose": "roofline.diagnosis",
    "torch": "roofline.torch",
}


def __getattr__(name: str) -> Any:
    """A public name that is loaded when it is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATER[name])
    return getattr(module, name, module)
