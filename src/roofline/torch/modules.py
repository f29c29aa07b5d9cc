"""A counted module as a model: its operators are its kernels, whatever the workload says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from roofline.device import Device
from roofline.dtypes import STORED, DType
from roofline.model import Counted, Model
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis
from roofline.torch.works import Row, flops_at, matrix_rate
from roofline.workload import CALL, Precision, Rows, Workload

ONE_CALL = Workload((Rows(CALL, 1, 1, 0, True),))
_PART = "parameters"


@dataclass(frozen=True, slots=True)
class Parameters(Stateless):
    """The parameters of a module, so many in each format; it has no kernels of its own."""

    sizes: tuple[tuple[DType, int], ...]
    label: str = _PART

    def weights(self) -> tuple[Weight, ...]:
        """A vector for each format."""
        return tuple(Weight(form.name, Axis(_PART, count), kind="vector") for form, count in self.sizes)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """None: the operators have them."""
        return ()


@dataclass(frozen=True, slots=True)
class Module(Model):
    """A module of PyTorch by the operators of one call; `peaks` are the rates of the device that it is counted for."""

    rows: tuple[Row, ...] = ()
    peaks: frozenset[str] | None = None

    def kernels(self, run: Pass) -> list[Counted]:
        """The operators in order, each with its calls."""
        works = ((row, row.work(self.peaks)) for row in self.rows)
        return [Counted(row.count, Kernel(row.name, row.place, work)) for row, work in works if work.bytes]

    def suited(self, device: Device, precision: Precision) -> tuple[Model, Precision]:
        """The module counted at the rates that a device has."""
        peaks = frozenset(device.peak)
        rates = flops_at([(row.count, row.work(peaks)) for row in self.rows])
        rate = matrix_rate(rates, peaks)
        return replace(self, peaks=peaks), replace(precision, compute=rate or precision.compute)


def model(name: str, rows: tuple[Row, ...], sizes: dict[DType, int], notes: tuple[str, ...]) -> Module:
    """The model of a module's rows and of its parameters by format."""
    part = Parameters(tuple(sizes.items()))
    formats = tuple((f"{_PART}.{form.name}", form) for form in sizes)
    source = {"operators": "one call, dispatched by PyTorch on stand-ins without numbers"}
    return Module(name, (part,), (), assumptions=notes, sources=source, stored=formats, rows=rows)


FORMATS = Precision(STORED)
