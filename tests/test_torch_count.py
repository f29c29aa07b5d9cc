"""What a counted module's operators demand, by hand-made calls: no PyTorch here. The oracle has real modules."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import roofline as rl
import roofline.torch
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.dtypes import DTYPES
from roofline.torch.calls import Dispatched, call, dispatched, free, moved, simple, tensor, whole
from roofline.torch.modules import FORMATS, ONE_CALL, model
from roofline.torch.recording import Recording, starred
from roofline.torch.works import Row

BF16, FP32 = DTYPES["bf16"], DTYPES["fp32"]


class Stand:
    """A tensor by its lengths and its format, as PyTorch shows them."""

    def __init__(self, *shape: int, dtype: str = "float32", storage: int | None = None) -> None:
        self.shape, self.dtype = shape, f"torch.{dtype}"
        self._storage = id(self) if storage is None else storage

    def stride(self) -> tuple[int, ...]:
        steps = [1]
        for each in reversed(self.shape[1:]):
            steps.insert(0, steps[0] * each)
        return tuple(steps[: len(self.shape)])

    def dim(self) -> int:
        return len(self.shape)

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> Any:
        return SimpleNamespace(_cdata=self._storage)


def operator(text: str, *tags: str, alias: tuple[str, ...] = (), view: bool = False) -> Any:
    """An operator of these arguments, `name=default` each; those of `alias` are changed."""
    name, *arguments = text.split()
    parsed = []
    for each in arguments:
        called, equals, default = each.partition("=")
        info = SimpleNamespace(is_write=True) if called in alias else None
        parsed.append(
            SimpleNamespace(
                name=called,
                alias_info=info,
                default_value={"None": None, "False": False, "1": 1}.get(default),
                has_default_value=lambda equals=equals: bool(equals),
            )
        )
    returns = [SimpleNamespace(alias_info=SimpleNamespace(is_write=bool(alias)) if view or alias else None)]
    schema = SimpleNamespace(name=name, arguments=parsed, returns=returns)
    return SimpleNamespace(_schema=schema, tags=[f"Tag.{tag}" for tag in tags])


def noted(function: Any, args: tuple[Any, ...], result: Any, **keywords: Any) -> Dispatched:
    return dispatched(function, args, keywords, result, Stand)


MM = operator("aten::mm a b")
ADD = operator("aten::add a b alpha=1", "pointwise")


def test_call_as_a_profiler_records_it():
    """Lengths, formats and steps of tensors; numbers and flags as text; a list of tensors with its format."""
    found = call(noted(operator("aten::cat tensors dim=1"), ([Stand(2, 3), Stand(4, 3)], 0), Stand(6, 3)), Stand)

    assert found == Call(
        "aten::cat",
        ([[2, 3], [4, 3]], []),
        ("TensorList", "Scalar"),
        ([[3, 1], [3, 1]], []),
        ("", "0"),
        kernel="float",
    )
    flags = call(
        noted(operator("aten::x a b=None c=False"), (Stand(2, dtype="bfloat16"), None, [1, 2]), Stand(2)), Stand
    )
    assert (flags.types, flags.concrete) == (("c10::BFloat16", "", "ScalarList"), ("", "", "[1, 2]"))
    assert call(noted(MM, (Stand(2, dtype="float8_e4m3fn"), Stand(2)), Stand(2)), Stand).types[0] == "c10::Float8"


def test_keywords_stand_where_the_schema_has_them():
    each = noted(operator("aten::op a scale=1 mask=None"), (Stand(2),), Stand(2), mask=Stand(3))
    assert [type(value) for value in each.values] == [Stand, int, Stand]


def test_output_of_a_convolution_is_known():
    """Where the table would work it out, and cannot for groups of a transposed one."""
    convolution = operator("aten::convolution x w bias=None stride=1 padding=1")
    found = call(noted(convolution, (Stand(1, 4, 9), Stand(4, 4, 3), None, [2], [0]), Stand(1, 4, 4)), Stand)
    assert (found.output, found.concrete[3]) == ((1, 4, 4), "")


def test_gradient_of_the_processor_s_attention_is_that_of_any():
    name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward dy q k v y lse dropout causal"
    found = call(noted(operator(name), (*(Stand(1, 2, 8, 4) for _ in range(6)), 0.0, True), Stand(1, 2, 8, 4)), Stand)
    assert found.name == "aten::_scaled_dot_product_flash_attention_backward"
    assert found.concrete[10:] == ("0.0", "True")


def test_gradient_of_a_grouped_product_is_one_product():
    found = call(noted(operator("aten::_grouped_mm a b offs=None"), (Stand(4, 8), Stand(8, 6)), Stand(2, 4, 6)), Stand)
    assert (found.name, found.dims) == ("aten::mm", ([4, 8], [8, 6]))


def test_what_costs_nothing():
    """Views, allocations, what returns no tensor, and a move to a device; a cast does cost."""
    x = Stand(4, 4)
    view = noted(operator("aten::t a", view=True), (x,), Stand(4, 4))
    empty = noted(operator("aten::empty_like a"), (x,), Stand(4, 4))
    none = noted(operator("aten::sym_size a"), (x,), 4)
    same = noted(operator("aten::_to_copy a"), (x,), Stand(4, 4))
    cast = noted(operator("aten::_to_copy a"), (x,), Stand(4, 4, dtype="bfloat16"))

    assert [free(each, Stand) for each in (view, empty, none, same, cast)] == [True, True, True, True, False]
    assert simple(cast) and whole(cast)
    assert not simple(noted(MM, (x, x), x)) and not whole(noted(MM, (x, x), x))


def test_each_tensor_is_moved_once():
    """A factor that stands twice is read once; a number is not read; in place is read and written."""
    x, y = Stand(4, 4), Stand(4, 4)
    twice = moved(noted(ADD, (x, x), y), Stand)
    assert (twice.read, twice.written) == ((x,), (y,))
    number = moved(noted(ADD, (x, Stand()), y), Stand)
    assert number.read == (x,)
    place = moved(noted(operator("aten::add_ a b", "pointwise", alias=("a",)), (x, y), x), Stand)
    assert (place.read, place.written) == ((x, y), (x,))
    over = moved(noted(operator("aten::copy_ a b", alias=("a",)), (x, y), x), Stand)
    assert (over.read, over.written) == ((y,), (x,))


def test_of_an_index_what_is_picked_is_read():
    table, rows, found = Stand(1000, 4), Stand(3, dtype="int64"), Stand(3, 4)
    assert moved(noted(operator("aten::index a indices"), (table, [rows]), found), Stand).read == (found, rows)


def test_masks_of_attention_are_read_beside():
    q, mask = Stand(1, 2, 8, 4), Stand(8, 8)
    each = noted(operator("aten::_scaled_dot_product_attention q k v attn_mask=None"), (q, q, q, mask), q)
    assert moved(each, Stand).masks == (mask,)


def test_formats_that_are_not_known():
    assert tensor(Stand(2, dtype="int4")) is None
    assert tensor(Stand(2, 3, dtype="bfloat16")) == Tensor((2, 3), BF16, (3, 1))


def row(name: str, *tensors: Tensor, written: tuple[Tensor, ...], **options: Any) -> Row:
    known = {"fp32": "float", "bf16": "c10::BFloat16", "int64": "long"}
    made = Call(
        f"aten::{name}",
        tuple(list(each.dims) for each in tensors),
        tuple(known[each.dtype.name] for each in tensors),
    )
    return Row(name, "module", made, tensors, written, **{"way": "table", **options})


A, B, Y = Tensor((8, 64), BF16), Tensor((64, 32), BF16), Tensor((8, 32), BF16)


def test_product_by_the_table():
    """2 m n k; x, W and y once; W as weights where it is a parameter that nothing read before."""
    first, again = (row("mm", A, B, written=(Y,), parameters=size).work(None) for size in (4096, 0))

    assert first.flops == again.flops == 2 * 8 * 64 * 32
    assert first.cost.memory == {"weights": 4096, "activations": 2 * (8 * 64 + 8 * 32)}
    assert again.cost.memory == {"activations": 2 * (8 * 64 + 64 * 32 + 8 * 32)}


def test_tensors_as_they_are_where_all_are_moved():
    """A cast from FP32 to BF16 reads 4 and writes 2 bytes, and counts nothing; an unknown pointwise one FLOP each."""
    x, y = Tensor((100,), FP32), Tensor((100,), BF16)
    cast = row("_to_copy", x, written=(y,), way="tensors", simple=True)
    other = row("brand_new", x, written=(x,), way="tensors", pointwise=True)

    assert (cast.work(None).flops, cast.work(None).bytes, cast.known()) == (0, 600, True)
    assert (other.work(None).flops, other.work(None).bytes, other.known()) == (100, 800, True)
    assert not row("brand_new", x, written=(x,)).known()


def test_fp32_at_the_rates_of_a_device():
    """TF32 only where PyTorch may use it and the device has it."""
    a, b, y = (Tensor(each.dims, FP32) for each in (A, B, Y))
    exact, fast = (row("mm", a, b, written=(y,), tf32=tf32) for tf32 in (False, True))

    def rate(each: Row, *peaks: str) -> str:
        [found] = each.work(frozenset(peaks)).cost.flops
        return found

    assert rate(exact, "tf32", "fp32-vector") == rate(fast, "fp32-vector") == "fp32-vector"
    assert rate(fast, "tf32", "fp32-vector") == "tf32"
    assert rate(exact, "fp32", "fp32-vector") == "fp32"  # matrix units of full FP32


def test_a_module_is_a_model():
    """Its ledger on any device, its parameters by format, nothing to change but the device."""
    rows = (row("mm", A, B, written=(Y,), parameters=4096, count=3), row("relu", Y, written=(Y,), pointwise=True))
    ledger = rl.predict(model("net", rows, {BF16: 2048, FP32: 10}, ("a note",)), "h100-sxm", ONE_CALL, FORMATS)

    assert [(point.name, point.count) for point in ledger] == [("mm", 3), ("relu", 1)]
    assert ledger.model.parameters().total == 2058
    assert rl.memory(ledger).weight_bytes == 2 * 2048 + 4 * 10
    assert (ledger.precision.compute, ledger.total.flops) == ("bf16", 3 * 2 * 8 * 64 * 32 + 3 * 0 + 256)
    assert "a note" in ledger.assumptions
    assert ledger.on("mi300x").device.id == "mi300x"
    record = ledger.to_dict()
    assert record["workload"]["phase"] == "call"
    assert {each["name"] for each in record["levers"]} == {"device"}


def test_words_of_a_call():
    """calls/s where a pass has tokens/s, and no batch or context that would fit."""
    from rich.console import Console

    from roofline.show.report import ledger_report
    from roofline.show.text import ledger_text

    ledger = rl.predict(model("net", (row("mm", A, B, written=(Y,)),), {}, ()), "h100-sxm", ONE_CALL, FORMATS)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(ledger_text(ledger, rl.memory(ledger)))
    shown = console.export_text().partition("Assumptions")[0]

    assert "one call, matrix products at bf16" in shown and "calls/s" in shown
    assert not any(word in shown for word in ("tokens", "context", "KV"))
    assert "calls/s" in ledger_report(ledger).html()


def test_pytorch_is_asked_for_in_one_line(monkeypatch):
    """Where it is not installed, what to install."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(rl.RooflineError, match=r"pip install 'roofline\[torch\]'"):
        roofline.torch.count(object())


class Of:
    """A stand-in for the library: what a recording asks of it."""

    Tensor = Stand

    def __init__(self, node: int | None = None, precision: str = "highest") -> None:
        self.number, self.node, self.precision = 1, node, precision
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(allow_tf32=True))
        autograd = SimpleNamespace(_get_sequence_nr=lambda: self.number)
        self._C = SimpleNamespace(_autograd=autograd, _current_autograd_node=self._node)

    def _node(self) -> Any:
        return None if self.node is None else SimpleNamespace(_sequence_nr=lambda: self.node)

    def get_float32_matmul_precision(self) -> str:
        return self.precision


def test_rows_of_a_recording():
    """One row for as many calls alike; gradients by the module that their operator was called in."""
    library = Of()
    w = Stand(64, 32, storage=7)
    found = Recording(library, {7})
    found.stack = ["Net", "layers.*.up"]
    for _ in range(2):
        found.add(MM, (Stand(8, 64), w), {}, Stand(8, 32))
    found.add(operator("aten::t a", view=True), (w,), {}, Stand(32, 64))
    with found.still():
        found.add(MM, (Stand(8, 64), w), {}, Stand(8, 32))
    library.node = 0
    found.add(MM, (Stand(64, 8), Stand(8, 32)), {}, Stand(64, 32))
    library.node = 99
    found.add(ADD, (Stand(4), Stand(4)), {}, Stand(4))
    rows = list(found.rows.values())

    assert [(row.name, row.place, row.count) for row in rows] == [
        ("up.mm", "layers.*.up", 1),
        ("up.mm", "layers.*.up", 1),
        ("up.mm backward", "layers.*.up", 1),
        ("Net.add backward", "Net", 1),
    ]
    assert [row.parameters for row in rows] == [4 * 64 * 32, 0, 0, 0]  # read first, and again
    assert not any(row.tf32 for row in rows)


def test_calls_alike_are_counted_together():
    found = Recording(Of(precision="high"), set())
    found.stack = ["*"]
    for _ in range(3):
        found.add(MM, (Stand(8, 64), Stand(64, 32)), {}, Stand(8, 32))
    [row] = found.rows.values()
    assert (row.name, row.count, row.tf32) == ("*.mm", 3, True)


def test_what_a_recording_does_not_know_is_named():
    """Formats that are not known, and FLOPs that are not."""
    found = Recording(Of(), set())
    found.stack = ["Net"]
    found.add(MM, (Stand(8, 64, dtype="int4"), Stand(64, 32)), {}, Stand(8, 32))
    found.add(operator("aten::brand_new a"), (Stand(4),), {}, Stand(4))
    found.add(operator("aten::_grouped_mm a b"), (Stand(4, 4), Stand(2, 4, 4)), {}, Stand(4, 4))
    notes = roofline.torch._notes(found)

    assert notes[0] == "The FLOPs of aten::brand_new (1 call) are not known: their bytes alone are counted"
    assert "one is read at the least" in notes[1]
    assert notes[2].startswith("aten::mm (1 call) have tensors of formats that are not known")
    assert roofline.torch._listed({f"op{n}": 2 for n in range(8)}).endswith("op5 (2 calls) and 2 more")


def test_numbers_of_a_module_s_path_are_stars():
    assert starred("model.layers.12.mlp.experts.3.up") == "model.layers.*.mlp.experts.*.up"
