"""Words of the PyTorch profiler: what is done with an event of each category, and what its details are made of."""

from __future__ import annotations

# What is done with an event, by its category; the old spellings are those of 2020 and 2021.
ROLES = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "set",
    "memset": "set",
    "cpu_op": "op",
    "operator": "op",
    "cuda_runtime": "call",
    "runtime": "call",
    "cuda_driver": "call",
    "xpu_runtime": "call",
    "xpu_driver": "call",
    "privateuse1_runtime": "call",
    "privateuse1_driver": "call",
    "mtia_runtime": "call",
    "user_annotation": "mark",
    "gpu_user_annotation": "gpu_mark",
    "python_function": "python",
}
DEVICE = ("kernel", "copy", "set")

# Why events of other categories are left out, in the words of the answer.
_FLOWS = "flow arrows (launches are joined by their numbers)"
FRAMES = "Python stack frames"
MODULE = "nn.Module: "  # how the frame of a module begins
LEFT_OUT = {
    "": "metadata and instants",
    "ac2g": _FLOWS,
    "async": _FLOWS,
    "async_gpu": _FLOWS,
    "async_cpu_to_gpu": _FLOWS,
    "fwdbwd": _FLOWS,
    "forward_backward": _FLOWS,
    "cpu_instant_event": "memory instants",
    "cuda_sync": "waits as the device sees them (the calls are used)",
    "trace": "the span of the profiler itself",
    "overhead": "overhead of the profiler",
}
# Others that the profiler may write: left out under their own names.
OTHERS = (
    "external_correlation",
    "cuda_event",
    "cuda_profiler_range",
    "glow_runtime",
    "mtia_ccp_events",
    "mtia_insight",
    "mtia_counters",
    "hpu_op",
    "collective_comm",
    "xpu_scope_profiler",
    "xpu_sync",
    "hardware_counters",
)

# The parts of a detail, by role, in the order in which they are joined; the later ones are rare.
_COLLECTIVE = ("collective", "sent", "received", "group", "dtype")
DETAILS = {
    "op": ("dims", "types", "strides", "concrete", "dims_old", "module", *_COLLECTIVE),
    "kernel": ("grid", "block", *_COLLECTIVE),
}
MARK = b"\x01"  # between the parts of a detail: no JSON text holds it


def reason(category: str | None) -> str:
    """Why events of a category are left out."""
    known = LEFT_OUT.get((category or "").lower())
    if known is not None or category is None:
        return known or LEFT_OUT[""]
    return f"category {(category if category.isprintable() else ascii(category)[1:-1])[:60]}"


def detail_text(text: bytes) -> bytes:
    """The parts of a detail as one JSON object, under one name in either spelling."""
    parts = text.split(MARK)
    role = "op" if len(parts) in (4, len(DETAILS["op"])) else "kernel"
    pairs = [(key.removesuffix("_old"), part) for key, part in zip(DETAILS[role], parts, strict=False) if part]
    return b"{" + b",".join(b'"%s":%s' % (key.encode(), part) for key, part in pairs) + b"}"
