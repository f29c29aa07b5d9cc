"""Attention that tiles its scores: PyTorch's, FlashAttention's, xFormers', cuDNN's, and that of serving engines."""

from __future__ import annotations

from typing import NamedTuple

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.engines import passed
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.ops import attention

# The gradient of a tiled attention: five products of the size of the forward's two, as the scores are computed again.
_BACKWARD_FLOPS = (5, 2)
_MATRICES, _PACKED = 4, 3  # lengths of q with and without a dimension of sequences


class Heads(NamedTuple):
    """Where the lengths stand in q, K and V of four dimensions."""

    new: int
    heads: int


BSHD, BHSD = Heads(1, 2), Heads(2, 1)


class Mask(NamedTuple):
    """What a query sees: all before it and itself where it is causal, the last `window` of these where there is one."""

    causal: bool
    window: int | None = None


def forward(call: Call, q: Tensor, k: Tensor, v: Tensor, layout: Heads, mask: Mask) -> Work | None:
    """The work of q, K and V in this layout; None where their lengths do not fit, or are not counted yet."""
    if not all(len(each.dims) == _MATRICES for each in (q, k, v)):
        return None
    sequences, dim = q.dims[0], q.dims[-1]
    new, heads = q.dims[layout.new], q.dims[layout.heads]
    seen, kv_heads = k.dims[layout.new], k.dims[layout.heads]
    if k.dims[0] != sequences or k.dims[-1] != dim or not kv_heads or heads % kv_heads:
        return None
    return _counted(call, q, k, v, (sequences, new, seen, heads, kv_heads), mask)


def _counted(
    call: Call, q: Tensor, k: Tensor, v: Tensor, lengths: tuple[int, int, int, int, int], mask: Mask
) -> Work | None:
    sequences, new, seen, heads, kv_heads = lengths
    causal = mask.causal
    compute = rate(call, q.dtype)
    if compute is None or min(new, seen, sequences, heads) < 1 or (mask.window is not None and not causal):
        return None
    if new > seen:
        if causal or heads != kv_heads:
            return None
        new, seen = seen, new  # without a mask, q and y against K and V is the same either way
    # A decode step's one token is the last of its context; of several, `context` is what stands before them.
    work = attention(
        sequences=sequences,
        new=new,
        context=seen if new == 1 else seen - new,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=q.dims[-1],
        kv=k.dtype,
        activations=q.dtype,
        compute=compute,
        causal=causal or new == 1,
        window=mask.window,
        role="activations",
    )
    return _narrower(work, q.dims[-1], v.dims[-1])


def _narrower(work: Work, keys: int, values: int) -> Work:
    """The same with heads of V that are of another width than those of K: half of everything is V's."""
    if keys == values:
        return work
    both = keys + values
    cost = work.cost
    flops = {name: n * both // (2 * keys) for name, n in cost.flops.items()}
    memory = {role: n * both // (2 * keys) for role, n in cost.memory.items()}
    return Work(work.op, {**work.dims, "value_dim": values}, Cost(flops, memory))


def backward(work: Work | None) -> Work | None:
    """The gradient of a forward pass: reads q, K, V, y and dy, writes dq, dK and dV, so moves its tensors twice."""
    if work is None:
        return None
    times, of = _BACKWARD_FLOPS
    flops = {name: n * times // of for name, n in work.cost.flops.items()}
    memory = {role: 2 * n for role, n in work.cost.memory.items()}
    return Work(work.op, {**work.dims, "backward": 1}, Cost(flops, memory))


def _three(call: Call, first: int) -> tuple[Tensor, Tensor, Tensor] | None:
    found = call.tensors(first, first + 1, first + 2)
    return None if found is None else (found[0], found[1], found[2])


def _sdpa(call: Call, first: int, layout: Heads, causal: bool | None, window: int | None = None) -> Work | None:
    found = _three(call, first)
    if found is None or causal is None:
        return None
    if len(found[0].dims) == _PACKED:
        return None
    return forward(call, *found, layout, Mask(causal, window))


def _window(call: Call, left: int) -> int | None:
    """How many positions a query sees where the file has how many before it at this place: not recorded, or -1, is all.

    The place behind it has how many after it, none under a causal mask.
    """
    before = call.whole(left)
    return None if before is None or before < 0 else before + 1


@cost("aten::_flash_attention_forward")
def flash(call: Call) -> Work | None:
    """(q, k, v, cum_q, cum_k, max_q, max_k, dropout, is_causal, debug, scale, before, after); packed with cum_q."""
    if call.tensor(3) is not None:
        return packed(call, 0, (3, 4), call.flag(8), _window(call, 11))
    return _sdpa(call, 0, BSHD, call.flag(8), _window(call, 11))


@cost("aten::_flash_attention_backward", several=True)
def flash_backward(call: Call) -> Work | None:
    """(dy, q, k, v, y, logsumexp, cum_q, cum_k, max_q, max_k, dropout, is_causal, …, scale, before, after)."""
    if call.tensor(6) is not None:
        return backward(packed(call, 1, (6, 7), call.flag(11), _window(call, 15)))
    return backward(_sdpa(call, 1, BSHD, call.flag(11), _window(call, 15)))


@cost("aten::_efficient_attention_forward")
def efficient(call: Call) -> Work | None:
    """(q, k, v, bias, cu_q, cu_k, max_q, max_k, dropout, mask type: 0 is none, 1 and 2 are causal)."""
    return None if call.tensor(4) is not None else _sdpa(call, 0, BSHD, _mask(call.whole(9)))


@cost("aten::_efficient_attention_backward", several=True)
def efficient_backward(call: Call) -> Work | None:
    """(dy, q, k, v, bias, y, cu_q, cu_k, max_q, max_k, logsumexp, dropout, seed, offset, mask type)."""
    return None if call.tensor(6) is not None else backward(_sdpa(call, 1, BSHD, _mask(call.whole(14))))


def _mask(kind: int | None) -> bool | None:
    return None if kind is None else kind > 0


@cost("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention_for_cpu")
def sdpa_flash(call: Call) -> Work | None:
    """(q, k, v, dropout, is_causal), heads before positions."""
    return _sdpa(call, 0, BHSD, call.flag(4))


@cost("aten::_scaled_dot_product_flash_attention_backward", several=True)
def sdpa_flash_backward(call: Call) -> Work | None:
    """(dy, q, k, v, y, logsumexp, cum_q, cum_k, max_q, max_k, dropout, is_causal)."""
    return backward(_sdpa(call, 1, BHSD, call.flag(11)))


@cost("aten::_scaled_dot_product_efficient_attention")
def sdpa_efficient(call: Call) -> Work | None:
    """(q, k, v, bias, compute_log_sumexp, dropout, is_causal)."""
    return _sdpa(call, 0, BHSD, call.flag(6))


@cost("aten::_scaled_dot_product_efficient_attention_backward", several=True)
def sdpa_efficient_backward(call: Call) -> Work | None:
    """(dy, q, k, v, bias, y, logsumexp, seed, offset, dropout, grad mask, is_causal)."""
    return backward(_sdpa(call, 1, BHSD, call.flag(11)))


@cost("aten::_scaled_dot_product_cudnn_attention")
def sdpa_cudnn(call: Call) -> Work | None:
    """(q, k, v, bias, compute_log_sumexp, dropout, is_causal); older without bias and log_sumexp first."""
    bias = call.tensor(3) is None and call.text(3) in ("", "None")
    return _sdpa(call, 0, BHSD, call.flag(6) if bias or call.tensor(3) is not None else call.flag(4))


@cost("aten::_scaled_dot_product_cudnn_attention_backward", several=True)
def sdpa_cudnn_backward(call: Call) -> Work | None:
    """(dy, q, k, v, y, logsumexp, seed, offset, bias, cum_q, cum_k, max_q, max_k, dropout, is_causal)."""
    return backward(_sdpa(call, 1, BHSD, call.flag(14)))


@cost("aten::_cudnn_attention_forward")
def cudnn(call: Call) -> Work | None:
    """(q, k, v, bias, cum_q, cum_k, max_q, max_k, compute_log_sumexp, dropout, is_causal), heads before positions."""
    return None if call.tensor(4) is not None else _sdpa(call, 0, BHSD, call.flag(10))


@cost("aten::_cudnn_attention_backward", several=True)
def cudnn_backward(call: Call) -> Work | None:
    """(dy, q, k, v, y, logsumexp, seed, offset, bias, cum_q, cum_k, max_q, max_k, dropout, is_causal)."""
    packed_up = call.tensor(9)
    return None if packed_up is not None and packed_up.n > 1 else backward(_sdpa(call, 1, BHSD, call.flag(14)))


@cost("aten::_scaled_dot_product_fused_attention_overrideable_backward", several=True)
def overrideable_backward(call: Call) -> Work | None:
    """(dy, q, k, v, bias, gradients asked for, y, logsumexp, cum_q, cum_k, max_q, max_k, dropout, is_causal)."""
    return backward(_sdpa(call, 1, BHSD, call.flag(13)))


@cost("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_fused_attention_overrideable")
def sdpa(call: Call) -> Work | None:
    """(q, k, v, mask, dropout, is_causal), where it was done by one kernel of a back end that is not named."""
    return _sdpa(call, 0, BHSD, call.flag(5))


@cost(
    "^flash_attn(_\\d|_gpu|_cuda)?::_?(flash_attn_)?(varlen_)?(forward|func|fwd)$",
    "^FlashAttn(Varlen)?Func$",
    "^aiter::_?(flash_attn|fmha_v3|mha)_(varlen_)?(forward|fwd)$",
    "^flash_api::fwd$",
)
def package(call: Call) -> Work | None:
    """(q, k, v, …, causal, before, after, …) of the FlashAttention package: its mask is the first flag.

    Packed sequences, q[tokens, heads, dim], have their ends in two vectors of whole numbers.
    """
    return _package(call, 0)


@cost(
    "^flash_attn(_\\d|_gpu|_cuda)?::_?(flash_attn_)?(varlen_)?(backward|bwd)$",
    "^aiter::_?(flash_attn|fmha_v3|mha)_(varlen_)?(backward|bwd)$",
    several=True,
)
def package_backward(call: Call) -> Work | None:
    """(dy, q, k, v, …)."""
    return backward(_package(call, 1))


@cost("^FlashAttn(Varlen)?QKVPackedFunc$")
def package_together(call: Call) -> Work | None:
    """(qkv[sequences, positions, 3, heads, dim], dropout, scale, causal, …), of dense sequences."""
    x, flag = call.tensor(0), _flag_at(call)
    if x is None or flag is None or len(x.dims) != _MATRICES + 1 or x.dims[2] != len("qkv"):
        return None
    one = x.like(*x.dims[:2], *x.dims[3:])
    return forward(call, one, one, one, BSHD, Mask(bool(call.flag(flag)), _window(call, flag + 1)))


def _flag_at(call: Call) -> int | None:
    return next((at for at in range(len(call.concrete)) if call.text(at) in ("True", "False")), None)


def _first_flag(call: Call) -> bool | None:
    at = _flag_at(call)
    return None if at is None else call.flag(at)


def _package(call: Call, first: int) -> Work | None:
    q, flag = call.tensor(first), _flag_at(call)
    if q is None or flag is None:
        return None
    window = _window(call, flag + 1)
    if len(q.dims) != _PACKED:
        return _sdpa(call, first, BSHD, call.flag(flag), window)
    behind = (call.tensor(at) for at in call.places())
    ends = [
        at
        for at, each in zip(call.places(), behind, strict=True)
        if at > first + 2 and each is not None and len(each.dims) == 1 and each.dtype.name in ("int32", "int64")
    ]
    return packed(call, first, (ends[0], ends[1]), call.flag(flag), window) if len(ends) > 1 else None


def packed(
    call: Call, first: int, cumulative: tuple[int, int], causal: bool | None, window: int | None = None
) -> Work | None:
    """Sequences one behind another, q[tokens, heads, dim]: their lengths are in no shape, so they are taken alike.

    No other lengths of as many tokens have fewer pairs, so the bound stays one.
    """
    found, ends = _three(call, first), call.tensors(*cumulative)
    if found is None or ends is None or causal is None:
        return None
    q, k, v = found
    if not all(len(each.dims) == _PACKED for each in found) or ends[0].n < 2:
        return None
    return alike(call, (q, k, v), ends[0].n - 1, k.dims[0], Mask(causal, window))


def alike(call: Call, qkv: tuple[Tensor, Tensor, Tensor], sequences: int, positions: int, mask: Mask) -> Work | None:
    """`sequences` that share q's tokens and `positions` of K and V evenly."""
    q, k, v = qkv
    new, seen = q.dims[0] // sequences, positions // sequences
    heads, kv_heads = q.dims[-2], k.dims[-2]
    if not new or not kv_heads or heads % kv_heads or k.dims[-1] != q.dims[-1]:
        return None
    return _counted(call, q, k, v, (sequences, new, max(seen, new), heads, kv_heads), mask)


@cost("^aiter::mha_batch_prefill", "^(flashinfer|sgl_kernel)::\\w*batch_prefill\\w*paged", lengths=True)
def paged(call: Call) -> Work | None:
    """(q[tokens, heads, dim], K and V of the whole cache, cu_seqlens_q, kv_indptr, pages): pages of one position."""
    found, rows = _three(call, 0), call.tensors(3, 4, 5)
    if found is None or rows is None or any(len(each.dims) != _PACKED for each in found) or rows[0].n < 2:
        return None
    q, k, v = found
    heads = q.dims[1]
    widths = (heads * q.dims[2], k.dims[1] * k.dims[2], v.dims[1] * v.dims[2], heads * v.dims[2])
    if (exact := passed(call, q, widths, k.dtype, call.lengths)) is not None:
        return exact
    causal = _first_flag(call)
    sequences = rows[0].n - 1
    # The list of pages is often longer than those in use: at the least each token attends to its own sequence.
    return alike(call, found, sequences, found[0].dims[0], Mask(True if causal is None else causal))


@cost("^xformers\\w*::efficient_attention_forward\\w*$")
def xformers(call: Call) -> Work | None:
    """(q, k, v, bias, cu_q, cu_k, max_q, dropout, compute_logsumexp, mask type: 0 is none), positions before heads."""
    return None if call.tensor(4) is not None else _sdpa(call, 0, BSHD, _mask(call.whole(9)))


@cost("^xformers\\w*::efficient_attention_backward\\w*$", several=True)
def xformers_backward(call: Call) -> Work | None:
    """(dy, q, k, v, bias, cu_q, cu_k, max_q, max_k, logsumexp, y, dropout, seed, offset, mask type)."""
    return None if call.tensor(5) is not None else backward(_sdpa(call, 1, BSHD, _mask(call.whole(14))))


@cost("^xformers\\w*::_?flash_fwd$")
def xformers_flash(call: Call) -> Work | None:
    """(q, k, v, cu_q, cu_k, …, is_causal, before, after, …) as the FlashAttention package."""
    return _package(call, 0)


@cost("^xformers\\w*::_?flash_bwd$", several=True)
def xformers_flash_backward(call: Call) -> Work | None:
    """(dy, q, k, v, …)."""
    return backward(_package(call, 1))
