"""A live page in the browser, and all that it says and asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

MODELS = ("qwen3-8b", "llama-3.1-70b", "gpt2")
WIDE = {"width": 1280, "height": 900}

# Sets the address and waits until the page has drawn that setting.
SHOW = """async (hash) => {
  const seen = document.body.dataset.drawn;
  location.hash = hash;
  for (let i = 0; i < 600; i += 1) {
    await new Promise(requestAnimationFrame);
    if (document.body.dataset.drawn !== seen) break;
  }
  const text = (id) => document.getElementById(id).textContent;
  const outs = [...document.querySelectorAll("#readouts [id^=out-]")];
  return {
    values: Object.fromEntries(outs.map((each) => [each.id.slice(4), Number(each.dataset.value)])),
    texts: Object.fromEntries(outs.map((each) => [each.id.slice(4), each.textContent])),
    verdict: text("verdict"), subject: text("subject"), setting: text("setting"),
    fits: document.getElementById("fits").lastChild.textContent, largest: text("largest"),
    rows: document.querySelectorAll("#kernels tbody tr").length,
  };
}"""


class Opened:
    """A page in the browser, and all that it said and asked for."""

    def __init__(self, browser: Any, file: Path, address: str = "", before: str = "", **options: Any) -> None:
        self.context = browser.new_context(viewport=WIDE, **options)
        self.page = self.context.new_page()
        if before:
            self.page.add_init_script(before)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url.split("#")[0]))
        self.page.goto(f"{file.as_uri()}#{address}")
        self.page.wait_for_selector("body[data-ready]")

    def wait(self, condition: str) -> None:
        """Until an expression holds; the page's policy lets no test make code of text within it."""
        for _ in range(200):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(condition)

    def show(self, **setting: Any) -> dict[str, Any]:
        """What the page shows at a setting."""
        return self.page.evaluate(SHOW, address(**setting))


def address(**setting: Any) -> str:
    return urlencode({key: int(value) if isinstance(value, bool) else value for key, value in setting.items()})
