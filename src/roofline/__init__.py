"""roofline: what limits a large language model on a device, kernel by kernel.

>>> import roofline as rl
>>> model, device = rl.Model.load("Qwen/Qwen3-8B"), rl.Device.load("h100-sxm")
>>> ledger = rl.predict(model, device, rl.Workload.decode(sequences=64, context=8192))
>>> ledger.total.bound
'memory'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline import collectives, ops
    from roofline.bound import Bound, Point, place
    from roofline.capacity import Memory, memory
    from roofline.checkpoints import checkpoint
    from roofline.cost import Cost, Work
    from roofline.crossing import crossovers
    from roofline.device import Device, Topology
    from roofline.diagnosis import diagnose
    from roofline.errors import RooflineError
    from roofline.ledger import Ledger, predict
    from roofline.measurement import measure
    from roofline.model import Model
    from roofline.shard import Shard
    from roofline.show import charts
    from roofline.workload import Precision, Workload

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


# Loaded when they are asked for: the list of devices needs no ledger, and a prediction draws nothing.
_HOMES = {
    "bound": ("Bound", "Point", "place"),
    "capacity": ("Memory", "memory"),
    "checkpoints": ("checkpoint",),
    "cost": ("Cost", "Work"),
    "crossing": ("crossovers",),
    "device": ("Device", "Topology"),
    "diagnosis": ("diagnose",),
    "errors": ("RooflineError",),
    "ledger": ("Ledger", "predict"),
    "measurement": ("measure",),
    "model": ("Model",),
    "shard": ("Shard",),
    "workload": ("Precision", "Workload"),
}
_LATER = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {
    "charts": "roofline.show.charts",
    "collectives": "roofline.collectives",
    "ops": "roofline.ops",
    "torch": "roofline.torch",
}


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is asked for."""
    if name in _MODULES:
        found = import_module(_MODULES[name])
    elif name in _LATER:
        found = getattr(import_module(f"roofline.{_LATER[name]}"), name)
    else:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
