"""roofline.torch.count against PyTorch's own FlopCounterMode, and bytes by hand; `-m oracle` runs these."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import roofline as rl

pytestmark = pytest.mark.oracle
torch: Any = pytest.importorskip("torch")
PRODUCTS = ("linear", "conv", "attention")


@pytest.fixture(autouse=True)
def _plain():
    """No grouped product of another test's formats, no warning of a library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def count(module: Any, *inputs: Any, **options: Any) -> rl.Ledger:
    from roofline.torch import count

    return count(module, *inputs, **options)


def products(ledger: rl.Ledger) -> int:
    return sum(point.flops for point in ledger if point.work.op in PRODUCTS)


def flops(module: Any, inputs: tuple[Any, ...], backward: bool) -> int:
    """What FlopCounterMode counts, with attention as products so that it does count it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        output = module(*inputs)
        if backward:
            leaves = [each for each in torch.utils._pytree.tree_leaves(output) if isinstance(each, torch.Tensor)]
            starts = [each for each in leaves if each.requires_grad]
            torch.autograd.backward(starts, [torch.ones_like(each) for each in starts])
    return counter.get_total_flops()


def bytes_of(ledger: rl.Ledger, name: str) -> list[int]:
    return [point.bytes for point in ledger if point.name == name]


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.wide = torch.nn.Conv2d(8, 8, 3, padding=2, dilation=2, bias=False)
        self.back = torch.nn.ConvTranspose2d(8, 6, 4, stride=2)
        self.groups = torch.nn.GroupNorm(3, 6)
        self.head = torch.nn.Linear(6, 10)

    def forward(self, x: Any) -> Any:
        x = torch.nn.functional.relu(self.norm(self.first(x)), inplace=True)
        x = torch.nn.functional.max_pool2d(self.wide(x), 2)
        x = self.groups(self.back(x))
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Products(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return torch.einsum("bij,bkj->bik", a, b) + torch.bmm(a, b.transpose(1, 2)) + a @ b.mT


class Attend(torch.nn.Module):
    def __init__(self, *, causal: bool = False, kv: int = 4) -> None:
        super().__init__()
        self.causal, self.kv = causal, kv
        self.q, self.k, self.v = (torch.nn.Linear(32, 8 * heads) for heads in (4, kv, kv))

    def forward(self, x: Any, mask: Any = None) -> Any:
        q, k, v = (each(x).unflatten(-1, (-1, 8)).transpose(1, 2) for each in (self.q, self.k, self.v))
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=self.kv != 4
        )


def modules() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    nn, tokens = torch.nn, torch.zeros(2, 9, dtype=torch.long)
    text = nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.RMSNorm(16), nn.Linear(16, 50))
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    return {
        "perceptron": (nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 5)), (torch.zeros(7, 20),)),
        "rows in three dimensions": (nn.Linear(20, 30), (torch.zeros(2, 7, 20),)),
        "products": (Products(), (torch.zeros(3, 4, 5, requires_grad=True), torch.zeros(3, 6, 5))),
        "convolutions": (Convolutions(), (torch.zeros(2, 3, 32, 32),)),
        "one dimension": (nn.Conv1d(4, 6, 3), (torch.zeros(2, 4, 20),)),
        "three dimensions": (nn.Conv3d(2, 4, 3), (torch.zeros(1, 2, 8, 8, 8),)),
        "attention": (Attend(), (torch.zeros(2, 16, 32),)),
        "attention of groups": (Attend(kv=2), (torch.zeros(2, 16, 32),)),
        "multi-head": (nn.MultiheadAttention(32, 4, batch_first=True), (torch.zeros(2, 6, 32),) * 3),
        "encoder": (nn.TransformerEncoder(layer, 2), (torch.zeros(2, 6, 32),)),
        "gates": (nn.GRU(8, 16), (torch.zeros(5, 2, 8),)),
        "text": (text, (tokens,)),
    }


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("name", modules())
def test_flops_are_those_of_pytorch(name, backward):
    """Attention that tiles its scores computes them again for the gradient: one product more than with scores kept."""
    module, inputs = modules()[name]
    again = sum(point.flops for point in count(module, *inputs) if point.work.op == "attention") // 2 if backward else 0

    assert products(count(module, *inputs, backward=backward)) == flops(module, inputs, backward) + again > 0


CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8},
    "phi3": {"num_key_value_heads": 4},
    "gpt_neox": {},
}
COMMON: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "vocab_size": 100}
COMMON |= {"num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0}


def hugging_face(kind: str, device: str, attention: str = "eager") -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **COMMON, **CONFIGS[kind])
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_hugging_face_model_on_the_meta_device(kind, backward):
    """Its parameters on no device at all; the oracle's on the processor."""
    tokens = torch.zeros(2, 12, dtype=torch.long)
    ledger = count(hugging_face(kind, "meta"), tokens, backward=backward)

    assert products(ledger) == flops(hugging_face(kind, "cpu"), (tokens,), backward)
    assert ledger.model.parameters().total == sum(each.numel() for each in hugging_face(kind, "meta").parameters())


def test_hugging_face_model_is_that_of_its_config():
    """FLOPs of every product, attention among them, as `predict` has them for the same pass."""
    model = hugging_face("qwen3", "meta", "sdpa")
    ledger = count(model, torch.zeros(2, 16, dtype=torch.long))
    same = rl.predict(
        rl.Model.load(model.config.to_dict()), "h100-sxm", rl.Workload.prefill(sequences=2, new=16, logits="all")
    )
    assert products(ledger) == products(same)


def test_decode_step_is_that_of_its_config():
    """A new token of each of two sequences on 31 cached ones."""
    transformers = pytest.importorskip("transformers")
    model = hugging_face("qwen3", "cpu", "sdpa")
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.zeros(2, 31, dtype=torch.long), past_key_values=cache)
    ledger = count(model, torch.zeros(2, 1, dtype=torch.long), past_key_values=cache)

    same = rl.predict(rl.Model.load(model.config.to_dict()), "h100-sxm", rl.Workload.decode(2, 32))
    assert products(ledger) == products(same)


def test_causal_attention_has_the_pairs_that_are_seen():
    """s(s+1)/2 of s²; its gradient five products for the forward's two."""
    pairs, width = 16 * 17 // 2, 2 * 4 * 2 * 2 * 8  # sequences, heads, products, FLOP, elements of a head
    [forward] = [p for p in count(Attend(causal=True), torch.zeros(2, 16, 32)) if p.work.op == "attention"]
    both = [p for p in count(Attend(causal=True), torch.zeros(2, 16, 32), backward=True) if p.work.op == "attention"]

    assert forward.flops == pairs * width
    assert [point.flops for point in both] == [pairs * width, pairs * width * 5 // 2]


def test_a_mask_is_read():
    """4 bytes for each of its numbers, beside q, K, V and y."""
    x, mask = torch.zeros(2, 16, 32), torch.zeros(2, 1, 16, 16)
    [bare] = [p for p in count(Attend(), x) if p.work.op == "attention"]
    [masked] = [p for p in count(Attend(), x, mask) if p.work.op == "attention"]
    assert masked.bytes - bare.bytes == 4 * 2 * 16 * 16


def test_attention_by_products_where_it_is_asked_for():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        ops = {point.work.op for point in count(Attend(), torch.zeros(2, 16, 32))}
    assert "attention" not in ops and "softmax" in ops


def test_groups_of_a_convolution():
    """Depthwise: taps · outputs products a channel, and as many for each gradient."""
    module = torch.nn.Conv2d(8, 8, 3, groups=8, padding=1, bias=False)
    forward = 2 * 2 * 8 * 9 * 10 * 10
    assert products(count(module, torch.zeros(2, 8, 10, 10))) == forward
    assert products(count(module, torch.zeros(2, 8, 10, 10, requires_grad=True), backward=True)) == 3 * forward


def test_transposed_convolution_of_groups():
    """Each input element times the taps of its group's filters."""
    module = torch.nn.ConvTranspose2d(8, 6, 4, stride=2, groups=2, bias=False)
    assert products(count(module, torch.zeros(2, 8, 5, 5))) == 2 * 2 * 25 * 8 * 3 * 16


def test_bytes_of_a_perceptron():
    """Each operand once: in FP32 4 bytes, parameters as weights where they are read first."""
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32, bias=False))
    ledger = count(module, torch.zeros(8, 64), backward=True)

    assert bytes_of(ledger, "Sequential.addmm") == [4 * (8 * 64 + 64 * 128 + 128 + 8 * 128)]
    assert bytes_of(ledger, "Sequential.relu") == [4 * 2 * 8 * 128]
    weights = sum(point.count * point.work.cost.memory.get("weights", 0) for point in ledger)
    assert weights == 4 * (64 * 128 + 128 + 128 * 32)
    assert ledger.total.floor_seconds < ledger.total.bound_seconds


class InPlace(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.view(4, 25)[1:].transpose(0, 1)
        y.add_(1)
        z = y + torch.ones(3)
        return (z * z).to(torch.bfloat16).sum(0)


def test_bytes_of_operators_one_by_one():
    """Views cost nothing; in place reads and writes once; a factor that stands twice is read once; a cast by halves."""
    ledger = count(InPlace(), torch.zeros(100))
    rows = {point.name: point for point in ledger}

    assert set(rows) == {f"InPlace.{name}" for name in ("add_", "add", "ones", "mul", "to_copy", "sum")}
    assert bytes_of(ledger, "InPlace.add_") == [4 * 2 * 75]
    assert bytes_of(ledger, "InPlace.add") == [4 * (75 + 3 + 75)]
    sizes = {name: point.bytes for name, point in rows.items()}
    assert sizes["InPlace.ones"] == 12
    assert sizes["InPlace.mul"] == 4 * (75 + 75)
    assert sizes["InPlace.to_copy"] == 75 * (4 + 2)
    assert sizes["InPlace.sum"] == 2 * (75 + 3)
    assert [point.flops for name, point in rows.items() if name == "InPlace.to_copy"] == [0]


def test_expanded_operand_is_in_memory_once():
    """x of 1 x 64 against 32 x 64."""

    class Add(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.expand(32, 64) + y

    assert bytes_of(count(Add(), torch.zeros(1, 64), torch.zeros(32, 64)), "Add.add") == [4 * (64 + 2 * 32 * 64)]


def test_embedding_reads_its_rows():
    """Of 1,000 rows the ten that are looked up; the head that is tied to it reads all, as the first."""

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(1000, 16)
            self.head = torch.nn.Linear(16, 1000, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens: Any) -> Any:
            return self.head(self.table(tokens))

    ledger = count(Tied(), torch.zeros(10, dtype=torch.long))
    rows = {point.name: point.work.cost.memory for point in ledger}

    assert rows["table.embedding"] == {"weights": 4 * 160, "activations": 4 * 160}
    assert rows["head.mm"]["weights"] == 4 * 16_000
    assert ledger.model.parameters().total == 16_000


def test_autocast_counts_as_it_is_set():
    """Products in BF16, casts as operators of their own."""
    module = torch.nn.Linear(64, 64, bias=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ledger = count(module, torch.zeros(8, 64))
    rates = {rate for point in ledger for rate in point.work.cost.flops if point.work.op == "linear"}

    assert rates == {"bf16"}
    assert sum(point.bytes for point in ledger if "to_copy" in point.name) == (4 + 2) * (64 * 64 + 8 * 64)


class Placed(torch.nn.Module):
    """A module that names a device and a format of its own."""

    def __init__(self, autocast: bool = False) -> None:
        super().__init__()
        self.linear, self.autocast = torch.nn.Linear(64, 64, bias=False), autocast

    def forward(self, x: Any) -> Any:
        if self.autocast:
            torch.set_autocast_enabled("cuda", True)
        try:
            return self.linear(x.to("cuda")).cuda() + torch.zeros(64, device="cuda")
        finally:
            torch.set_autocast_enabled("cuda", False)


def test_a_module_that_names_a_device(monkeypatch):
    """It is counted where there is none such: a move between devices costs nothing."""
    ledger = count(Placed(), torch.zeros(8, 64), backward=True)
    assert [point.name for point in ledger][:3] == ["linear.mm", "Placed.zeros", "Placed.add"]


def test_on_the_meta_device_all_around():
    """Where new tensors are made on it by default."""
    with torch.device("meta"):
        ledger = count(torch.nn.Linear(64, 64), torch.zeros(8, 64))
    assert [point.work.op for point in ledger] == ["linear"]


def test_autocast_within_a_module():
    """That of an accelerator, set by the module itself."""
    [point] = [p for p in count(Placed(autocast=True), torch.zeros(8, 64)) if p.work.op == "linear"]
    assert point.rate in ("bf16", "fp16")


def test_rates_are_the_device_s():
    """FP32 at the vector units or, where PyTorch may, at TF32; a convolution at TF32 by cuDNN's default."""
    linear, conv = torch.nn.Linear(64, 64), torch.nn.Conv1d(4, 4, 3)

    def rate(module: Any, *inputs: Any, device: str = "h100-sxm") -> str:
        [point] = [p for p in count(module, *inputs, device=device) if p.work.op in PRODUCTS]
        return point.rate

    assert rate(linear, torch.zeros(8, 64)) == "fp32-vector"
    assert rate(conv, torch.zeros(1, 4, 10)) == "tf32"
    assert rate(conv, torch.zeros(1, 4, 10), device="v100-sxm2-32gb") == "fp32-vector"
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        ledger = count(linear, torch.zeros(8, 64))
    finally:
        torch.set_float32_matmul_precision(before)
    assert ledger.kernels[0].rate == "tf32"
    assert ledger.on("v100-sxm2-32gb").kernels[0].rate == "fp32-vector"
    on_tpu = count(linear, torch.zeros(8, 64), device="tpu-v5e")
    assert any("fp32-vector peak of tpu-v5e is unknown" in each for each in on_tpu.assumptions)


def test_layers_of_one_kind_are_one_row():
    layers = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(12)))
    ledger = count(layers, torch.zeros(3, 16))

    assert [(point.count, point.part) for point in ledger] == [(12, "*")]


def test_the_module_is_left_as_it_is():
    """No gradients, no running statistics, no hooks, on any device."""
    module = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4))
    before = {name: each.clone() for name, each in module.state_dict().items()}
    count(module, torch.ones(2, 2, 9), backward=True)

    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())
    assert all(each.grad is None for each in module.parameters())
    hooks = torch.nn.modules.module
    assert not hooks._global_forward_pre_hooks and not hooks._global_forward_hooks


def test_seventy_billion_parameters_take_no_memory():
    with torch.device("meta"):
        module = torch.nn.Sequential(*(torch.nn.Linear(32_768, 32_768, bias=False) for _ in range(65)))
    ledger = count(module.to(torch.bfloat16), torch.zeros(1, 32_768, dtype=torch.bfloat16, device="meta"))

    assert ledger.model.parameters().total == 65 * 32_768**2
    assert products(ledger) == 2 * 65 * 32_768**2
    assert rl.memory(ledger).weight_bytes == 2 * 65 * 32_768**2


def test_a_loss_is_what_gradients_start_from():
    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            from types import SimpleNamespace

            return SimpleNamespace(loss=self.used(x).sum(), logits=self.unused(x))

    names = {point.name for point in count(Loss(), torch.zeros(3, 8), backward=True)}
    assert "used.mm backward" in names or "used.addmm backward" in names
    assert not any(name.startswith("unused") and name.endswith("backward") for name in names)


def test_an_operator_whose_flops_are_not_known_is_said():
    ledger = count(torch.nn.Bilinear(4, 5, 6), torch.zeros(3, 4), torch.zeros(3, 5))
    assert any("FLOPs of aten::_trilinear (1 call) are not known" in each for each in ledger.assumptions)
    assert ledger.total.bytes > 0


class Branch(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("module", "inputs", "options", "says"),
    [
        (7, (), {}, "7 is no module"),
        (torch.nn.Linear(4, 4), (torch.zeros(3, 5),), {}, "cannot be counted on these inputs"),
        (torch.nn.Linear(4, 4), (), {}, "cannot be counted on these inputs"),
        (Branch(), (torch.zeros(3),), {}, "depends on a number"),
        (torch.nn.Flatten(), (torch.zeros(3, 4),), {}, "moves nothing"),
        (torch.nn.ReLU(), (torch.zeros(3),), {"backward": True}, "has a gradient"),
        (torch.nn.Linear(4, 4), (torch.zeros(3, 4).to_sparse(),), {}, "dense tensors"),
        (torch.nn.Linear(4, 4), (torch.zeros(3, 4),), {"device": "h1000"}, "Unknown device"),
    ],
)
def test_what_cannot_be_counted_is_one_line(module, inputs, options, says):
    with pytest.raises(rl.RooflineError, match=says) as caught:
        count(module, *inputs, **options)
    assert "\n" not in str(caught.value)


def test_a_ledger_like_any_other():
    """Record, chart, report, text and notebook; what would help is of the device."""
    from roofline.show.report import ledger_report
    from roofline.show.text import ledger_text

    ledger = count(Convolutions(), torch.zeros(2, 3, 32, 32), backward=True)
    record = ledger.to_dict()

    assert record["workload"]["phase"] == "call" and record["model"]["name"] == "Convolutions, forward and backward"
    assert sum(each["bytes"] for each in record["kernels"]) == record["total"]["bytes"]
    assert {each["name"] for each in record["levers"]} == {"device"}
    assert "calls/s" in ledger_report(ledger).html() and "<svg" in ledger.chart().svg()
    assert ledger_text(ledger, rl.memory(ledger)) is not None
    assert ledger._repr_mimebundle_()
    assert math.isclose(ledger.on("b200").total.flops, ledger.total.flops)


def test_the_page_s_example():
    """docs/torch.md as it stands."""
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text("utf-8")
    [block] = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "docs/torch.md", "exec"), {"__name__": "page"})
