"""Drag a slider of the live page for five seconds in headless Chromium: frames a second, and move to drawn.

    python benchmarks/page.py [CHROMIUM]

A move is a real one of the mouse over the slider's track, 60 a second or as many as the machine takes, once the page
has been looked at for a second; "drawn" is the end of the page's own work for it. Prints the file's size, the time to
write it, frames a second (median, worst frame, mean), and the median and 95th percentile from a move to drawn.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import sync_playwright

from roofline.catalogue import load_model, model_ids
from roofline.show.live import live_page

SECONDS = 5.0
LOOKED = 1000  # how long the page is looked at before it is touched [ms]
COUNT = """() => {
  window.frames_seen = []; window.work = [];
  const tick = (now) => { frames_seen.push(now); requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  let since = null;
  addEventListener("input", () => { since ??= performance.now(); }, true);
  new MutationObserver(() => { if (since !== null) work.push(performance.now() - since); since = null; })
    .observe(document.body, { attributes: true, attributeFilter: ["data-drawn"] });
}"""


def main() -> None:
    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    names = ("qwen3-8b", "llama-3.1-70b", *model_ids())[:12]
    models = {name: load_model(name) for name in dict.fromkeys(names)}
    models = dict(list(models.items())[:10])
    started = time.perf_counter()
    html = live_page(models)
    print(f"{len(html.encode()):,} B for {len(models)} models, written in {time.perf_counter() - started:.2f} s")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(html, "utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]")
        box = page.locator("#sequences-range").bounding_box()
        assert box is not None
        page.evaluate(COUNT)
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 8, middle)
        page.mouse.down()
        page.wait_for_timeout(LOOKED)
        start = time.perf_counter()
        moves = 0
        while time.perf_counter() < start + SECONDS:
            step = (moves % 120) / 120
            along = 2 * step if step < 0.5 else 2 - 2 * step
            page.mouse.move(box["x"] + 8 + along * (box["width"] - 16), middle)
            moves += 1
            time.sleep(max(0.0, start + moves / 60 - time.perf_counter()))
        page.mouse.up()
        seen, work = page.evaluate("[frames_seen, work]")
        browser.close()
    gaps = [later - before for before, later in pairwise(seen)]
    work.sort()
    print(
        f"{moves} moves, {len(seen)} frames: median {1000 / statistics.median(gaps):.0f} frames/s, worst frame "
        f"{max(gaps):.0f} ms, mean {1000 * len(gaps) / sum(gaps):.0f} frames/s"
    )
    print(f"move to drawn: median {statistics.median(work):.1f} ms, p95 {work[int(0.95 * len(work))]:.1f} ms")


if __name__ == "__main__":
    main()
