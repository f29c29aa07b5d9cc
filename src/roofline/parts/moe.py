"""A mixture of experts: a router, routed experts as grouped GEMMs, shared experts beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.num import Num
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.routing import Routing
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class Experts(Stateless):
    """Σ top_k experts of down(act(gate(x)) · up(x)), or down(act(up(x))) where they are not `gated`.

    `shared` is the width of the shared experts together, with a `shared_gate` of one output where they have one.
    `latent` is the width that experts work at where it is not the stream's. `bias`, `router_bias`: of each expert's
    matrices, of the router; `correction`: a stored vector of one number an expert that shifts or scales the choice;
    `scales`: one that scales what the router reads.
    """

    hidden: Axis
    experts: Axis
    top_k: int
    intermediate: Axis
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    correction: bool = False
    shared: Axis | None = None
    shared_gate: bool = False
    latent: Axis | None = None
    scales: Axis | None = None
    label: str = "moe"

    def router(self) -> Weight:
        """The matrix that scores every expert."""
        return Weight("router", Axis("router", self.experts.size), self.hidden, self.router_bias)

    def routed(self) -> tuple[Weight, ...]:
        """Gate and up (or up alone) and down of every expert."""
        width = self.latent or self.hidden
        names = ("experts_gate_proj", "experts_up_proj") if self.gated else ("experts_up_proj",)
        ends = (self.intermediate, width), (width, self.intermediate)
        up = (Weight(name, *ends[0], self.bias, experts=self.experts, top_k=self.top_k) for name in names)
        return (*up, Weight("experts_down_proj", *ends[1], self.bias, experts=self.experts, top_k=self.top_k))

    def beside(self) -> tuple[Weight, ...]:
        """Gate and up (or up alone) and down of the shared experts together."""
        if self.shared is None:
            return ()
        names = ("shared_gate_proj", "shared_up_proj") if self.gated else ("shared_up_proj",)
        up = (Weight(name, self.shared, self.hidden) for name in names)
        return (*up, Weight("shared_down_proj", self.hidden, self.shared))

    def scale(self) -> tuple[Weight, ...]:
        """The matrix of one output that weighs the shared experts."""
        return (Weight("shared_gate", Axis("gate", 1), self.hidden),) if self.shared_gate else ()

    def between(self) -> tuple[Weight, ...]:
        """The matrices into and out of the width that experts work at."""
        if self.latent is None:
            return ()
        return (Weight("latent_down", self.latent, self.hidden), Weight("latent_up", self.hidden, self.latent))

    def weights(self) -> tuple[Weight, ...]:
        """Router, experts, shared experts."""
        shift = (Weight("correction", Axis("router", self.experts.size), kind="vector"),) if self.correction else ()
        read = (Weight("router_scale", self.scales, kind="vector"),) if self.scales else ()
        return (self.router(), *shift, *read, *self.between(), *self.routed(), *self.beside(), *self.scale())

    def routing(self, tokens: Num, run: Pass) -> Routing:
        """Where the tokens of a pass go."""
        return Routing(self.experts.size, self.top_k, tokens, run.spread)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Router and choice, the experts, the shared experts, their sum, and its all-reduce where that is split."""
        tokens = run.tokens
        rows = run.gemm("router", self.label, tokens, (self.router(),))
        choice = ops.softmax(m=tokens, width=self.experts.size, activations=run.activations)
        rows.append(Kernel("router_top_k", self.label, choice))
        into = self.between()
        if into:
            rows += run.gemm("latent_down", self.label, tokens, into[:1])
        rows += self._routed(run)
        if into:
            rows += run.gemm("latent_up", self.label, tokens, into[1:])
        rows += self._beside(run)
        width = self.hidden.elements
        return [*rows, *run.reduced(self.intermediate, self.label, tokens, width)]

    def _routed(self, run: Pass) -> list[Kernel]:
        """Two grouped GEMMs with the activation between them, and the weighted sum of what a token's experts give."""
        *up, down = self.routed()
        chosen = run.tokens * self.top_k
        width = (self.latent or self.hidden).elements
        act = ops.activation(
            m=chosen,
            width=run.shard.elements(self.intermediate),
            gates=int(self.gated),
            activations=run.activations,
        )
        added = int(self.shared is not None and self.latent is None)
        combine = ops.elementwise(
            n=run.tokens * width,
            reads=self.top_k + added,
            writes=1,
            flops=2 * self.top_k + added,
            activations=run.activations,
        )
        name = "experts_gate_up_proj" if self.gated else "experts_up_proj"
        return [
            self._grouped(name, run, tuple(up), run.tokens),
            Kernel("experts_act_mul" if self.gated else "experts_act", self.label, act),
            self._grouped("experts_down_proj", run, (down,), chosen),
            Kernel("experts_combine", self.label, combine),
        ]

    def _grouped(self, name: str, run: Pass, weights: tuple[Weight, ...], inputs: Num) -> Kernel:
        """One grouped GEMM through matrices of every expert that share their input."""
        shard, inp = run.shard, weights[0].inp
        assert inp is not None
        n = sum(shard.elements(each.out) for each in weights)
        work = ops.moe(
            tokens=run.tokens,
            top_k=self.top_k,
            experts=shard.units(self.experts),
            n=n,
            k=shard.elements(inp),
            touched=self.routing(run.tokens, run).touched,
            inputs=inputs,
            weights=run.format(self.label, weights[0]),
            activations=run.activations,
            compute=run.precision.compute,
            biases=n if self.bias else None,
            bias=run.vectors,
        )
        return Kernel(name, self.label, work)

    def _beside(self, run: Pass) -> list[Kernel]:
        """The shared experts; their sum over ranks is that of the routed ones, taken once."""
        if self.shared is None:
            return []
        *up, down = self.beside()
        rows: list[Kernel] = []
        for each in (*self.scale(), *up):
            rows += run.gemm(each.name, self.label, run.tokens, (each,))
        act = ops.activation(
            m=run.tokens,
            width=run.shard.elements(self.shared),
            gates=int(self.gated),
            activations=run.activations,
        )
        rows.append(Kernel("shared_act_mul" if self.gated else "shared_act", self.label, act))
        return [*rows, *run.gemm(down.name, self.label, run.tokens, (down,))[:1]]
