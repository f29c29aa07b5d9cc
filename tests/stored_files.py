"""Small checkpoints as files: headers as the formats have them, and as many zero bytes behind as they say."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BITS = {"F64": 64, "F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "I32": 32, "I64": 64, "U8": 8, "I8": 8, "F4": 4}
# Elements and bytes of a block, by the number of the type.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 14: (256, 210), 30: (1, 2), 39: (32, 17)}
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


def header(tensors: Shapes) -> dict[str, Any]:
    """The entries of a safetensors header, one tensor behind another."""
    at, entries = 0, dict[str, Any]()
    for name, (kind, shape) in tensors.items():
        size = math.prod(shape) * BITS[kind] // 8
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return entries


def packed(entries: object, data: int, length: int | None = None) -> bytes:
    """A safetensors file: the length of the header (another one, to lie), the header, zero bytes."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


def safetensors(path: Path, tensors: Shapes) -> int:
    """Write a file with these tensors (dtype and shape by name); the bytes of all of them."""
    entries = header(tensors)
    size = max((each["data_offsets"][1] for each in entries.values()), default=0)
    path.write_bytes(packed({"__metadata__": {"format": "pt"}, **entries}, size))
    return size


def string(text: str | bytes) -> bytes:
    """A string of a GGUF file."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value(found: object) -> bytes:
    """A value of a GGUF file, with its kind in front."""
    match found:
        case bool():
            return struct.pack("<I?", 7, found)
        case int():
            return struct.pack("<II", 4, found)
        case float():
            return struct.pack("<If", 6, found)
        case str():
            return struct.pack("<I", 8) + string(found)
        case bytes():
            return found
        case list():
            items = [value(each) for each in found]
            return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(i[4:] for i in items)
        case _:
            raise TypeError(found)


def gguf_bytes(
    metadata: Mapping[str, object],
    tensors: Mapping[str, tuple[int, tuple[int, ...]]],
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    offsets: Mapping[str, int] | None = None,
    data: int | None = None,
) -> bytes:
    """A GGUF file of these tensors (type and shape, rows first); counts, places and size may lie."""
    alignment = int(str(metadata.get("general.alignment", 32)))
    alignment = alignment if 0 < alignment < 1 << 20 else 32
    keys, described, at = b"".join(string(key) + value(each) for key, each in metadata.items()), b"", 0
    for name, (kind, shape) in tensors.items():
        described += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        described += struct.pack("<IQ", kind, (offsets or {}).get(name, at))
        elements, size = BLOCKS.get(kind, (1, 1))
        at += -(-(math.prod(shape) // elements * size) // alignment) * alignment
    number = counts or (len(tensors), len(metadata))
    head = b"GGUF" + struct.pack("<IQQ", version, *number) + keys + described
    return head + bytes(-len(head) % alignment) + bytes(at if data is None else data)


def dense(
    layers: int, hidden: int, width: int, heads: int, kv: int, vocab: int, head_dim: int, *, kind: str = "BF16"
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a Qwen3 with its own lm_head."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {"model.embed_tokens.weight": (kind, (vocab, hidden))}
    for layer in range(layers):
        for name, shape in {
            "self_attn.q_proj": (heads * head_dim, hidden),
            "self_attn.k_proj": (kv * head_dim, hidden),
            "self_attn.v_proj": (kv * head_dim, hidden),
            "self_attn.o_proj": (hidden, heads * head_dim),
            "self_attn.q_norm": (head_dim,),
            "self_attn.k_norm": (head_dim,),
            "mlp.gate_proj": (width, hidden),
            "mlp.up_proj": (width, hidden),
            "mlp.down_proj": (hidden, width),
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
        }.items():
            found[f"model.layers.{layer}.{name}.weight"] = (kind, shape)
    return {**found, "model.norm.weight": (kind, (hidden,)), "lm_head.weight": (kind, (vocab, hidden))}
