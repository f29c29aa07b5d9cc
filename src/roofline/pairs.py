"""Who sees whom: query-key pairs of causal attention, and the cached positions that are read, under each limit."""

from __future__ import annotations

from roofline.num import Num, exact_div, maximum, minimum, where


def attended(new: Num, context: Num, window: Num | None = None) -> Num:
    """Query-key pairs of one causal sequence and head.

    `new` queries after `context` cached positions: new·context + new(new+1)/2. A single new token
    (a decode step) is the last of the `context` positions that the published figures count, so it
    attends to `context` of them. `window` caps what one query sees.
    """
    alone = maximum(context, 1)
    if window is None:
        many = new * context + exact_div(new * (new + 1), 2)
    else:
        alone = minimum(alone, window)
        growing = minimum(maximum(window - context, 0), new)
        many = growing * context + exact_div(growing * (growing + 1), 2) + (new - growing) * window
    return where(new > 1, many, alone)


def positions(new: Num, context: Num, window: Num | None = None) -> Num:
    """Cache positions that the new tokens of one sequence read, each once.

    `context + new`; a single new token is the last of `context`. A window leaves out those that no
    query sees any more.
    """
    held = where(new > 1, context + new, maximum(context, 1))
    return held if window is None else minimum(held, window + new - 1)


def around(new: Num, window: Num) -> Num:
    """Pairs where each of `new` positions sees itself and `window` positions on either side, as far as there are."""
    reach = minimum(window, maximum(new - 1, 0))
    return new + 2 * new * reach - reach * (reach + 1)


def blocked(new: Num, chunk: Num) -> Num:
    """Pairs where each of `new` positions sees its own chunk of them, before and behind it."""
    rest = new - (new // chunk) * chunk
    return (new - rest) * chunk + rest * rest


def chunked(new: Num, context: Num, chunk: Num) -> tuple[Num, Num]:
    """Pairs, and positions read, where a query sees its own chunk of positions up to itself.

    A decode step sees what its chunk has so far, from 1 to `chunk` positions.
    """

    def first(n: Num) -> Num:
        whole = n // chunk
        rest = n - whole * chunk
        return exact_div(whole * chunk * (chunk + 1), 2) + exact_div(rest * (rest + 1), 2)

    last = maximum(context, 1) - 1
    alone = last - (last // chunk) * chunk + 1
    held = context + new
    seen = where(new > 1, held - (context // chunk) * chunk, alone)
    return where(new > 1, first(held) - first(context), alone), seen


def compressed(new: Num, context: Num, stride: Num, selected: Num | None = None) -> tuple[Num, Num]:
    """Pairs, and entries read, where every `stride` positions are cached as one entry, once they are all there.

    A query at position p sees p // stride entries, or the `selected` best of them; of several queries
    the fewest entries that they can share are read.
    """
    last = maximum(context, 1)
    held = where(new > 1, context + new, last) // stride

    def first(n: Num) -> Num:
        whole = n // stride
        return exact_div(stride * whole * (whole - 1), 2) + whole * (n - stride * whole + 1)

    if selected is None:
        return where(new > 1, first(context + new) - first(context), held), held

    def capped(n: Num) -> Num:
        full = stride * selected  # from this position on every query sees as many as it may
        return first(minimum(n, full)) + selected * (n - minimum(n, full))

    return (
        where(new > 1, capped(context + new) - capped(context), minimum(held, selected)),
        minimum(held, selected),
    )


def visible(
    new: Num, context: Num, window: Num | None, chunk: Num | None, stride: Num | None, selected: Num | None
) -> tuple[Num, Num]:
    """Causal pairs, and positions read, under one of the limits."""
    if chunk is not None:
        return chunked(new, context, chunk)
    if stride is not None:
        return compressed(new, context, stride, selected)
    if selected is None:
        return attended(new, context, window), positions(new, context, window)
    return attended(new, context, selected), minimum(positions(new, context), selected)
