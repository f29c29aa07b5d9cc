"""Vision towers from the keys of a config: what most of them share, and the few ways in which they differ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.parts.attention import Attention, HeadNorm, Limits
from roofline.parts.base import Part
from roofline.parts.ends import Norm, Positions, Projection
from roofline.parts.mlp import Mlp
from roofline.parts.tower import LABEL, Scale, Stage
from roofline.shard import Axis

MOST_DEPTH = 512
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Vit:
    """The layers of a vision transformer: sizes, and what is there of biases, norms and scales.

    `norms` vectors of each norm, `biases` of attention (`out_biases` of its output where those differ) and `mlp_bias`,
    `before` and `after` the layers a norm; `post_norm`: norms behind both blocks too; `scaled`: a vector that scales
    what each block gives. `window`: patches of a part of the image, which alone see each other in all but `whole` of
    the layers.
    """

    width: int
    layers: int
    heads: int
    intermediate: int
    patch: int
    positions: int = 0
    patch_bias: bool = True
    kv_heads: int | None = None
    head_dim: int | None = None
    norms: int = 2
    biases: bool = True
    out_biases: bool | None = None
    gated: bool = False
    mlp_bias: bool = True
    head_norm: HeadNorm | None = None
    rotated: bool = True
    before: bool = False
    after: bool = False
    post_norm: bool = False
    scaled: bool = False
    window: int = 0
    whole: int | None = None
    first: tuple[Part, ...] = field(default=())


def side(config: Config, name: str, least: int = 1) -> int:
    """A size that is one number or the same one for each side."""
    found = config.find(name)
    given: object = found[1] if found else None
    listed: list[object] = list(cast("list[object]", given)) if isinstance(given, list) else [given]
    value = listed[0] if listed and all(each == listed[0] for each in listed) else None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise config.fail(
            f"{name} is {shown(cast(object, given))}; it decides the patches of an image. Possible: a whole number."
        )
    return value


def layers(config: Config, vit: Vit, rows: int) -> Stage:
    """Patch embedding, positions and the layers, over `rows` patches a token."""
    hidden = Axis("vision_hidden", vit.width)
    if vit.head_dim is None and vit.width % vit.heads:
        raise config.fail(f"{vit.width} is not divisible by the {vit.heads} heads of the tower. Correct one of them.")
    head_dim = vit.head_dim or vit.width // vit.heads
    parts: list[tuple[int, Part]] = [
        (1, Projection("patch_embed", hidden, Axis("patch", vit.patch), vit.patch_bias, LABEL)),
        *((1, each) for each in vit.first),
    ]
    if vit.positions:
        parts.append((1, Positions(vit.positions, hidden, LABEL)))
    if vit.before:
        parts.append((1, norm("pre_norm", hidden, vit, 0)))
    mixer = Attention(
        hidden,
        Axis("vision_heads", vit.heads, head_dim),
        Axis("vision_kv_heads", vit.kv_heads or vit.heads, head_dim),
        rotary_dim=head_dim if vit.rotated else 0,
        qkv_bias=vit.biases,
        out_bias=vit.biases if vit.out_biases is None else vit.out_biases,
        head_norm=vit.head_norm,
        causal=False,
        label=LABEL,
    )
    feed = Mlp(hidden, Axis("vision_intermediate", vit.intermediate), vit.gated, vit.mlp_bias, label=LABEL)
    parts += _repeated(vit, mixer, feed)
    if vit.after:
        parts.append((1, norm("post_norm", hidden, vit, 1)))
    return Stage(rows, tuple(parts))


def _repeated(vit: Vit, mixer: Attention, feed: Mlp) -> list[tuple[int, Part]]:
    """The parts of the layers with how often each comes."""
    hidden, parts = mixer.hidden, list[tuple[int, Part]]()
    near = vit.layers - vit.whole if vit.window and vit.whole is not None else 0
    attends: list[tuple[int, Part]] = [(vit.layers - near, mixer)]
    if near:
        attends.append((near, replace(mixer, limits=Limits(chunk=vit.window))))
    for name, first, blocks in (("attention", "input_norm", attends), ("mlp", "mlp_norm", [(vit.layers, feed)])):
        parts.append((vit.layers, norm(first, hidden, vit, 1)))
        parts += blocks
        if vit.scaled:
            parts.append((vit.layers, Scale(f"{name}_scale", hidden)))
        if vit.post_norm:
            parts.append((vit.layers, norm(f"{name}_post_norm", hidden, vit, 0)))
    return parts


def norm(name: str, width: Axis, vit: Vit, added: int) -> Norm:
    """A norm of the tower."""
    return Norm(name, width, added, vit.norms, label=LABEL)


def merged(name: str, widths: tuple[int, ...], bias: bool | tuple[bool, ...]) -> tuple[tuple[int, Part], ...]:
    """Matrices one after another, from the first width to the last."""
    axes = [Axis(f"{name}_{index}", width) for index, width in enumerate(widths)]
    flags = (bias,) * (len(axes) - 1) if isinstance(bias, bool) else bias
    return tuple(
        (1, Projection(f"{name}_{index + 1}" if len(axes) > 2 else name, out, inp, flag, LABEL))
        for index, (inp, out, flag) in enumerate(zip(axes, axes[1:], flags, strict=False))
    )
