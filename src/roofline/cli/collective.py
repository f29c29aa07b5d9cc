"""`roofline collective`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.catalogue import load_device
from roofline.cli.options import print_json
from roofline.cli.training_options import Busbw, Bytes, Gpus, Seconds
from roofline.errors import BadValue
from roofline.training import wire


def collective(
    kind: Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"],
    size: Bytes,
    /,
    *,
    ranks: Gpus,
    busbw: Busbw | None = None,
    device: str | None = None,
    seconds: Seconds | None = None,
    algorithm: Literal["ring", "tree", "in-network"] = "ring",
    latency: Seconds | None = None,
    per_node: Gpus | None = None,
    network_busbw: Busbw | None = None,
    step_time: Seconds | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """One collective: bytes a rank sends, time, algbw and busbw as nccl-tests define them, its bound.

    Parameters
    ----------
    kind
        Which collective.
    size
        Bytes of the buffer as nccl-tests count it, as 14GB: a rank's whole buffer, the gathered one for
        all-gather and reduce-scatter.
    ranks
        How many ranks take part.
    busbw
        The bus bandwidth that nccl-tests measured, as 400GB/s, or their log.
    device
        A device id or TOML file: its link's bandwidth.
    seconds
        A measured time, as 656ms, from which both bandwidths follow.
    algorithm
        ring, tree (all-reduce, broadcast), or in-network: a switch that reduces.
    latency
        Time of one step, as 5us.
    per_node
        Ranks of a node, for a collective in levels.
    network_busbw
        Bus bandwidth between nodes of one rank, as 40GB/s.
    step_time
        Time of a step, of which the collective is a share: with it in the step, and added to it.
    json
        One JSON object instead of text.
    """
    if busbw is not None and device is not None:
        raise BadValue("A bandwidth is that of --busbw or --device, one of the two.")
    loaded = None if device is None else load_device(device)
    wires = wire.Wires(busbw, loaded, network_busbw, per_node, latency)
    answer = wire.collective(kind, size, ranks, wires, seconds=seconds, algorithm=algorithm)
    if json:
        from roofline.show.training_record import collective_record

        print_json(collective_record(answer, step_time))
        return 0
    from roofline.show.terminal import show
    from roofline.show.training_text import collective_text

    show(collective_text(answer, step_time))
    return 0
