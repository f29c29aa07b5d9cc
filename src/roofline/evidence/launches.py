"""Kernel launches as a counter profiler measured them: time, bytes, FLOPs by rate, shares of peaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.units import KILO


@dataclass(frozen=True, slots=True)
class Rule:
    """A remark of the tool itself about a kernel; `speedup` is the share that it estimates to win, or None."""

    name: str
    text: str
    speedup: float | None


@dataclass(frozen=True, slots=True)
class Launch:
    """One measured launch of a kernel, in base units; what the file does not hold is None or absent.

    `values` are the counters of data/counters.toml by their own names; `flops` by rate, empty where no FLOP counter
    was collected (`counted` is then False: unknown, not zero); `peak` are peaks at the clocks of the measurement.
    """

    kernel: str
    grid: str
    block: str
    device: int | None
    capability: str
    values: Mapping[str, float]
    flops: Mapping[str, float] = field(default_factory=dict[str, float])
    counted: bool = False
    peak: Mapping[str, float] = field(default_factory=dict[str, float])
    rules: tuple[Rule, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Duration [s]."""
        return self.values.get("seconds") or None

    @property
    def dram_bytes(self) -> float | None:
        """Bytes that crossed the memory interface [byte]."""
        return self._moved("dram_bytes", ("dram_read_bytes", "dram_write_bytes"), "dram_rate")

    @property
    def l2_bytes(self) -> float | None:
        """Bytes that the L2 cache served [byte]."""
        found = self._moved("l2_bytes", (), "l2_rate")
        sectors = self.values.get("l2_sectors")
        return found if found is not None or sectors is None else sectors * _SECTOR

    def _moved(self, whole: str, parts: tuple[str, ...], rate: str) -> float | None:
        if whole in self.values:
            return self.values[whole]
        if parts and all(each in self.values for each in parts):
            return sum(self.values[each] for each in parts)
        if self.seconds is None:
            return None
        if rate in self.values:
            return self.values[rate] * self.seconds
        rates = [each.replace("_bytes", "_rate") for each in parts]
        if rates and all(each in self.values for each in rates):
            return sum(self.values[each] for each in rates) * self.seconds
        return None

    @property
    def bandwidth(self) -> float | None:
        """Peak bandwidth of the memory, and by what the file says it: see `bandwidth_from` [byte/s]."""
        return self._bandwidth()[0]

    @property
    def bandwidth_from(self) -> str:
        """What the peak bandwidth was taken from, or ""."""
        return self._bandwidth()[1]

    def _bandwidth(self) -> tuple[float | None, str]:
        values = self.values
        per_cycle, clock = values.get("dram_peak_per_cycle"), values.get("dram_clock")
        if per_cycle and clock:
            return per_cycle * clock, "the counter of the memory's peak times its measured clock"
        moved, share = self.dram_bytes, values.get("dram_share")
        if moved and self.seconds and share is not None and share >= _TELLING:
            return moved / self.seconds / share, "measured bytes over the tool's own percentage"
        clock, bits = values.get("memory_clock_khz"), values.get("bus_bits")
        if clock and bits:
            return 2 * clock * KILO * bits / 8, "memory clock and bus width"
        return None, ""


_SECTOR = 32  # [byte]
_TELLING = 0.05  # a percentage of two decimals is exact to 0.1 % from here on
