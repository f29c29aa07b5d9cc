"""What several test files share: a limit on time, and a small config."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# A Llama of four layers; what each test file changes it says itself.
SMALL_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}


@contextmanager
def no_hang(seconds: float = 20.0) -> Iterator[None]:
    """Fail what is still busy after that many seconds: a limit against hangs, no measure of speed."""

    def late(*_: object) -> None:
        raise TimeoutError(f"still busy after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
