"""Operators with mutated arguments: costs, findings, comparison, text and report answer whatever a file holds.

ROUNDS from a fixed seed; more with the environment variable ROOFLINE_FUZZ_ROUNDS.
"""

from __future__ import annotations

import copy
import json
import os
import random

import pytest
from rich.console import Console

import roofline as rl
from limits import no_hang
from roofline.diagnosis.changes import compare, of_diagnosis
from roofline.show.changes import comparison_markdown, comparison_record
from roofline.show.diagnosis import diagnosis_text
from roofline.show.diagnosis_report import diagnosis_report
from traces import kernel, launch, op, trace, write

ROUNDS = int(os.environ.get("ROOFLINE_FUZZ_ROUNDS", "25"))
B, F = "c10::BFloat16", "float"
QKV = [[2, 16, 4, 64]] * 3
CONV = [[2, 3, 8, 8], [4, 3, 3, 3]]
OPERATORS = [
    ("aten::mm", [[8, 16], [16, 32]], [B, B], [], "sm90_xmma_gemm_bf16"),
    ("aten::addmm", [[32], [8, 16], [16, 32], [], []], [F, F, F, "", ""], ["", "", "", "1", "1"], "ampere_sgemm_128"),
    ("aten::_flash_attention_forward", [*QKV, *[[]] * 6], [B] * 3, [*[""] * 5, "16", "16", "0.", "True"], "flash"),
    ("aten::convolution", [*CONV, [], [], [], [], [], [], []], [F, F],
     ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"], "cudnn_fprop"),
    ("aten::_softmax", [[8, 32], [], []], [F, "Scalar", "Scalar"], ["", "-1", "False"], "softmax_warp_forward"),
    ("aten::native_layer_norm", [[8, 32], [], [32], [32], []], [F, "", F, F, ""], ["", "[32]"], "layer_norm"),
    ("aten::cat", [[[8, 16], [8, 16]], []], ["TensorList", "Scalar"], [], "CatArray<OpaqueType<2u>"),
    ("aten::index", [[8, 32], [[4]]], [F, "TensorList"], [], "index_elementwise<float>"),
    ("triton_poi_fused_add_0", [[8, 32], [8, 32], []], [B, B, "Scalar"], ["", "", "256"], "triton_poi_fused_add_0"),
    ("aten::_foreach_add_", [[[8], [4]], [[8], [4]], []], ["TensorList"] * 2, [], "multi_tensor_apply<float>"),
    ("vllm::fused_experts", [[8, 16], [4, 64, 16], [4, 16, 32], [8, 2]], [B, B, B, F], [], "fused_moe_kernel"),
]  # fmt: skip
ODD = (
    None, True, -1, 0, 1, 7, 1 << 40, 1 << 63, -(1 << 70), 10**400, 1e308, "", "[3, -1]", "[0]", "True", "9" * 40, [],
    [[]], [[[1]]], {}, {"a": [1]}, [1, "2", None], "c10::Half", "\u0000", "\ud800",
)  # fmt: skip


def places(node):
    """Every place of a structure: what it is in, and its key."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from places(value)


def events(rng):
    """Operators whose arguments are mutated, and their kernels as they were."""
    found = []
    for n, (name, dims, types, concrete, on) in enumerate(OPERATORS, 1):
        args = {"Input Dims": dims, "Input type": types, "Concrete Inputs": concrete, "Input Strides": [[1] * 3] * 3}
        args = copy.deepcopy(args)
        for _ in range(rng.randint(0, 3)):
            holder, key = rng.choice(list(places(args)))
            if rng.random() < 0.3:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(rng.choice(ODD))
            if not args:
                break
        grid = rng.choice(([4, 1, 1], [1 << 40] * 3, [-1], "x", [1.5, None], {}))
        found += [op(name, 10 * n, 8, n, **args), launch(10 * n + 1, n, 1)]
        found.append(kernel(on, 200 + 10 * n, rng.choice((0, 1, 9)), n, grid=grid))
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_an_answer_whatever_the_arguments_are(seed, tmp_path):
    rng = random.Random(seed)
    console = Console(file=open(os.devnull, "w", encoding="utf-8", errors="replace"), width=80)  # noqa: SIM115
    last, costed = None, 0
    for _ in range(ROUNDS):
        with no_hang(10):
            found = rl.diagnose(write(tmp_path, trace(*events(rng))))
            record = found.to_dict()
            side = of_diagnosis(found)
            both = compare(last or side, side)
        json.dumps(record, allow_nan=False)
        json.dumps(comparison_record(both), allow_nan=False)
        assert comparison_markdown(both)
        assert sum(each.difference for each in both.changes) == both.after.whole - both.before.whole
        assert all(each["at_stake_s"] > 0 for each in record["findings"])
        assert 0 <= record["coverage"] <= 1
        console.print(diagnosis_text(found))
        last, costed = side, costed + sum(each["cost_from"] == "shapes" for each in record["kernels"])
    assert diagnosis_report(found).html()
    console.file.close()
    assert costed > ROUNDS
