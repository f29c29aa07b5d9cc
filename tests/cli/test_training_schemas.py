"""What the training commands print follows the schemas that the package carries."""

from __future__ import annotations

import jsonschema
import pytest

from roofline.show.schema import schema

RUN = ("--device", "h100-sxm", "--gpus", "8")
TRAIN = ("train", "gpt2", *RUN, "--global-batch", "65536", "--sequence", "1024")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mfu-1", ("mfu", "gpt2", *RUN, "--tokens-per-second", "1M", "--sequence", "1k", "--recompute", "0.5")),
        ("mfu-1", ("mfu", "--params", "7B", *RUN, "--step-time", "1s", "--global-batch", "4M")),
        ("collective-1", ("collective", "all-gather", "1GB", "--ranks", "8", "--device", "h100-sxm")),
        ("collective-1", ("collective", "all-reduce", "1GB", "--ranks", "8", "--seconds", "1", "--step-time", "9s")),
        ("train-1", (*TRAIN, "--budget", "10B", "--tp", "2", "--zero", "1", "--recompute", "full")),
        ("train-1", (*TRAIN, "--step-time", "10ms", "--lora", "4")),
        ("search-1", (*TRAIN, "--search")),
    ],
)
def test_answers_follow_their_schema(roofline, name, arguments):
    """Every key and type."""
    answer = roofline(*arguments, "--json")

    assert answer.code == 0, answer.err
    jsonschema.validate(answer.json, schema(name))
