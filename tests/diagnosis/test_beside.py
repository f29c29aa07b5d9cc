"""A model's exact ledger beside a measured step, and MFU from either."""

from __future__ import annotations

import json

import jsonschema
import pytest

import roofline as rl
from roofline.diagnosis.beside import beside, utilisation
from roofline.show import runs
from roofline.show.diagnosis_record import diagnosis_record
from roofline.show.schema import schema
from traces import event, kernel, launch, op, trace, write

B = "c10::BFloat16"
TOKENS, HIDDEN, INNER, HEADS, KV, DIM = 32, 64, 128, 4, 2, 16
CONFIG = {
    "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": HEADS,
    "num_key_value_heads": KV, "head_dim": DIM, "intermediate_size": INNER, "vocab_size": 512, "hidden_act": "silu",
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
}  # fmt: skip


def step(head=False):
    """Two sequences of 16 tokens through one layer: its products and its attention, as a framework runs them."""
    products = [(HIDDEN, HEADS * DIM), (HIDDEN, KV * DIM), (HIDDEN, KV * DIM), (HEADS * DIM, HIDDEN),
                (HIDDEN, INNER), (HIDDEN, INNER), (INNER, HIDDEN)]  # fmt: skip
    events = []
    for n, (k, width) in enumerate([*products, *([(HIDDEN, 512)] if head else [])], 1):
        m = 2 if width == 512 else TOKENS
        events += [
            op("aten::mm", 20 * n, 9, n, **{"Input Dims": [[m, k], [k, width]], "Input type": [B, B]}),
            launch(20 * n + 1, n, 1),
            kernel("sm90_xmma_gemm_bf16", 1000 + 20 * n, 10, n),
        ]
    qkv = [[2, 16, HEADS, DIM], [2, 16, KV, DIM], [2, 16, KV, DIM]]
    shapes = {"Input Dims": [*qkv, *[[]] * 6], "Input type": [B, B, B, *[""] * 6],
              "Concrete Inputs": ["", "", "", "", "", "16", "16", "0.", "True"]}  # fmt: skip
    flash = [
        op("aten::_flash_attention_forward", 300, 9, 90, **shapes),
        launch(301, 90, 1),
        kernel("flash_fwd", 1400, 10, 90),
    ]
    return [*events, *flash]


@pytest.fixture
def found(tmp_path):
    return rl.diagnose(write(tmp_path, trace(*step())))


def test_a_step_equals_the_ledger_of_its_model(found):
    """FLOPs of products and attention, one for one; lm_head did not run."""
    side = beside(found, rl.Model.load(CONFIG))

    assert [(each.op, each.predicted_flops) for each in side.sides] == [
        ("linear", 2 * TOKENS * (HIDDEN * (HEADS + 2 * KV) * DIM + HIDDEN * HEADS * DIM + 3 * HIDDEN * INNER)),
        ("attention", 4 * 2 * HEADS * DIM * 16 * 17 // 2),
    ]
    assert all(each.predicted_flops == each.measured_flops for each in side.sides)
    assert side.without == ("lm_head",)
    assert side.mfu == pytest.approx(sum(each.measured_flops for each in side.sides) / found.window / 1e-9 / 989.4e12)


def test_a_step_with_its_head(tmp_path):
    side = beside(rl.diagnose(write(tmp_path, trace(*step(head=True)))), rl.Model.load(CONFIG))

    assert side.without == ()
    assert all(each.predicted_flops == each.measured_flops for each in side.sides)


def test_mfu_of_the_recorded_operations(found):
    mfu = utilisation(found)

    assert mfu is not None
    assert (mfu.rate, mfu.peak) == ("bf16", 989.4e12)
    assert mfu.seconds == pytest.approx(found.window * 1e-9)
    assert mfu.value == pytest.approx(mfu.flops / mfu.seconds / mfu.peak)


def test_a_decode_by_the_annotation_of_its_server(tmp_path):
    """32 requests that attend to 32,785 positions: 1,024 each."""
    name = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
    found = rl.diagnose(write(tmp_path, trace(event("user_annotation", name, 0, 99), kernel("gemm", 10, 9, 1))))
    rows = beside(found, rl.Model.load(CONFIG)).ledger.workload.groups[0]

    assert (rows.sequences, rows.context, rows.new) == (32, 1024, 1)
    assert utilisation(found) is None


def test_a_prefill_by_the_annotation_of_its_server(tmp_path):
    """4 requests of 8 tokens have 4 x 36 pairs; as many tokens in requests of other lengths have more."""

    def pass_of(sums):
        name = f"execute_32_context_{sums}_generation_0(sq0sk0sqsq0sqsk0)"
        return rl.diagnose(write(tmp_path, trace(event("user_annotation", name, 0, 99), kernel("gemm", 10, 9, 1))))

    alike = beside(pass_of("4(sq32sk32sqsq256sqsk256)"), rl.Model.load(CONFIG)).ledger.workload.groups[0]
    assert (alike.sequences, alike.new, alike.context) == (4, 8, 0)
    with pytest.raises(rl.RooflineError, match="Which pass"):
        beside(pass_of("4(sq32sk32sqsq400sqsk400)"), rl.Model.load(CONFIG))


def test_what_is_not_in_the_file_is_not_guessed(tmp_path):
    model = rl.Model.load(CONFIG)
    with pytest.raises(rl.RooflineError, match="Which pass"):
        beside(rl.diagnose(write(tmp_path, trace(kernel("gemm", 10, 9, 1)))), model)
    with pytest.raises(rl.RooflineError, match="needs a device"):
        beside(rl.diagnose(write(tmp_path, trace(*step(), deviceProperties=[]))), model)


def test_record_text_report_and_chart(roofline, found, tmp_path):
    record = diagnosis_record(found, beside(found, rl.Model.load(CONFIG)))
    jsonschema.validate(json.loads(json.dumps(record)), schema("diagnosis-1"))
    assert record["beside"]["not_in_step"] == ["lm_head"]
    assert record["mfu"]["rate"] == "bf16"

    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), "utf-8")
    page, picture = tmp_path / "out.html", tmp_path / "out.svg"
    path = write(tmp_path, trace(*step()))
    answer = roofline("diagnose", path, "--model", config, "--report", page, "--chart", picture)
    assert answer.code == 0
    assert "Not in the measured step: lm_head." in answer.out
    text = page.read_text("utf-8")
    assert "Costliest kernels" in text
    assert "roofline diagnose" in text
    assert picture.read_text("utf-8").startswith("<svg")


def test_a_report_of_a_file_without_a_gpu(tmp_path):
    from roofline.show.diagnosis_report import diagnosis_report

    report = diagnosis_report(rl.diagnose(write(tmp_path, trace(op("aten::mm", 0, 5, 1)))))
    assert "says nothing of a GPU" in report.verdict
    assert "<html" in report.html()


def test_names_are_data_in_a_report(tmp_path):
    from roofline.show.diagnosis_report import diagnosis_report

    name = "<script>alert(1)</script>"
    html = diagnosis_report(rl.diagnose(write(tmp_path, trace(kernel(name, 10, 9, 1))))).html()
    assert name not in html


def test_a_device_that_is_named(roofline, tmp_path):
    path = write(tmp_path, trace(*step(), deviceProperties=[]))

    assert "No bounds" in roofline("diagnose", path).out
    record = json.loads(roofline("diagnose", path, "--device", "b200", "--json").out)
    assert (record["device"]["id"], record["bounds_on"]) == ("b200", "b200")
    assert roofline("diagnose", path, "--device", "nonsense").code == 2
    assert roofline("diagnose", path, "--chart", tmp_path / "x.svg").code == 2


def test_what_has_no_product_has_no_mfu(tmp_path):
    """Elementwise work alone: a share of a peak of its own would say nothing of a model."""
    add = op("aten::add", 0, 20, 1, **{"Input Dims": [[1 << 20], [1 << 20]], "Input type": [B, B]})
    seen = rl.diagnose(write(tmp_path, trace(add, launch(5, 1, 1), kernel("add<c10::BFloat16>", 30, 10, 1))))

    assert seen.coverage.share == 1.0
    assert seen.to_dict()["mfu"] is None


MIXTURE = CONFIG | {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 2,
    "rms_norm_eps": 1e-5,
}  # fmt: skip


def test_experts_count_for_mfu_whether_or_not_their_cost_is_known(found):
    side = beside(found, rl.Model.load(MIXTURE))
    moe = next(each for each in side.sides if each.op == "moe")

    assert moe.predicted_flops == 2 * TOKENS * 2 * 3 * HIDDEN * INNER
    assert moe.measured_flops == 0
    assert side.mfu == pytest.approx(sum(each.predicted_flops for each in side.sides) / side.seconds / 989.4e12)
    assert "products, attention and experts" in runs.beside_lines(side)[-1]


def test_one_rank_of_several_has_its_part_of_the_model(tmp_path):
    """How the ranks split it is not in the file: no MFU until that is said."""
    found = rl.diagnose(write(tmp_path, trace(*step(), distributedInfo={"rank": 0, "world_size": 2})))
    model = rl.Model.load(CONFIG)
    unknown, whole, half = (beside(found, model, tp) for tp in (None, 1, 2))

    assert unknown.mfu is None
    assert "one of 2 ranks" in unknown.unlike
    assert whole.mfu is not None
    assert half.ledger.shard.tp == 2
    assert half.sides[1].predicted_flops == whole.sides[1].predicted_flops // 2


def test_another_model_is_told(found):
    side = beside(found, rl.Model.load(CONFIG | {"hidden_size": 96, "intermediate_size": 160, "head_dim": 24}))

    assert side.mfu is None
    assert "another model ran" in side.unlike
    assert "No MFU of the model: only 0 %" in runs.beside_lines(side)[-1]


def test_ranks_are_of_a_model_or_a_benchmark(roofline, tmp_path):
    answer = roofline("diagnose", write(tmp_path, trace(*step())), "--tp", "2")

    assert answer.code == 2
    assert "--model" in answer.err


def test_the_report_has_all_that_the_terminal_has(roofline, tmp_path):
    """The ledger, the steps, the marked ranges, the longest gaps, the passes, what was read."""
    name = "execute_32_context_2(sq32sk32sqsq512sqsk512)_generation_0(sq0sk0sqsq0sqsk0)"
    marks = [event("user_annotation", "ProfilerStep#1", 0, 900), event("user_annotation", "block_7", 10, 300),
             event("user_annotation", name, 5, 400)]  # fmt: skip
    of = [{"rank": n, "world_size": 4} for n in (0, 1)]
    files = [write(tmp_path, trace(*step(), *marks, distributedInfo=each), f"{each['rank']}.json") for each in of]
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), "utf-8")
    report = tmp_path / "r.html"
    answer = roofline("diagnose", *files, "--model", config, "--tp", "1", "--report", report)
    page = report.read_text("utf-8")

    assert answer.code == 0
    for title in ("2 ranks", "Beside the model", "Steps", "Marked ranges", "Passes of the server", "What was read"):
        assert title in page
        assert title in answer.out
    assert "The run has 4 ranks, of which 2 are here" in page
    assert "--tp 1" in page


def test_a_kernel_that_takes_next_to_nothing_does_not_stretch_the_chart(tmp_path):
    """One FLOP in a microsecond beside a millisecond of products: its dot would be at 1e-6 TFLOP/s."""
    events = step()
    for each in events:
        if each.get("cat") == "kernel":
            each["dur"] = 1000
    tiny = {"Input Dims": [[1], [1]], "Input type": [B, B]}
    events += [op("aten::add", 900, 5, 70, **tiny), launch(901, 70, 1), kernel("add<c10::BFloat16>", 3000, 1, 70)]
    chart = json.dumps(rl.diagnose(write(tmp_path, trace(*events))).chart().spec)

    assert "sm90_xmma_gemm_bf16" in chart
    assert "add<c10" not in chart
