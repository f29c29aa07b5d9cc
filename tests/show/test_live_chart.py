"""The chart of the live page: what moves, what stands still, on screen and on paper."""

from __future__ import annotations

from pathlib import Path

from show.live_browser import Opened, address


def test_a_chart_that_moved_is_the_chart_of_its_setting(browser, file):
    """What a slider moved is drawn, once it stands, as a page opened there draws it: order, names and all."""

    def picture(shown: Opened) -> str:
        shown.page.wait_for_timeout(400)  # past the moment after which it stands
        with shown.page.expect_download() as saved:
            shown.page.locator("#save-svg").click()
        return Path(saved.value.path()).read_text("utf-8")

    moved = Opened(browser, file, "sequences=1")
    for sequences, context in ((300, 8192), (7, 100)):
        moved.show(sequences=sequences, context=context)
        fresh = Opened(browser, file, address(sequences=sequences, context=context))
        assert picture(moved) == picture(fresh)
        fresh.context.close()
    moved.context.close()


GROUND = "[...document.querySelector('#roofline canvas').getContext('2d').getImageData(2, 2, 1, 1).data.slice(0, 3)]"


def test_paper_is_light(browser, file):
    """A reader who prefers dark prints black on white: chart, bar and all; then the page is dark again."""
    dark = Opened(browser, file, "sequences=64", color_scheme="dark")
    assert dark.page.evaluate(GROUND) == [0x15, 0x18, 0x1D]
    dark.page.emulate_media(media="print", color_scheme="dark")
    dark.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    dark.wait(f"JSON.stringify({GROUND}) === '[255,255,255]'")
    weights = "getComputedStyle(document.querySelector('#memory-bar .weights')).backgroundColor"
    assert dark.page.evaluate(weights) == "rgb(0, 114, 178)"
    dark.page.evaluate("dispatchEvent(new Event('afterprint'))")
    dark.wait(f"JSON.stringify({GROUND}) === '[21,24,29]'")
    dark.context.close()


def test_a_device_beside_itself(opened):
    """Compared with itself a device has one roof; with figures of one's own it is named apart from the listed one."""
    label = "document.getElementById('roofline').getAttribute('aria-label')"
    opened.show(model="qwen3-8b", device="h100-sxm", against="h100-sxm")
    assert "Roofs: 3.352 TB/s; 989.4 TFLOP/s bf16;" in opened.page.evaluate(label)
    opened.show(model="qwen3-8b", device="h100-sxm", against="h100-sxm", bandwidth=6e12)
    assert "your h100-sxm 6.000 TB/s" in opened.page.evaluate(label)
    assert "; h100-sxm 3.352 TB/s" in opened.page.evaluate(label)


# Keeps the drawing library's own object of the chart, to see what it works out anew.
KEEP = """(() => {
  let embed;
  Object.defineProperty(window, "vegaEmbed", {
    get: () => async (...given) => { const made = await embed(...given); window.chartView = made.view; return made; },
    set: (value) => { embed = value; },
  });
})()"""
# While the batch grows by a stop at a time: the fonts that texts are measured in, what is written in the controls, and
# the scales that are worked out anew.
MOVES = """async (stops) => {
  const fonts = new Set(), written = new Set(), scaled = new Set();
  const prototype = CanvasRenderingContext2D.prototype, { measureText } = prototype;
  prototype.measureText = function (text) { fonts.add(this.font); return measureText.call(this, text); };
  const watched = { subtree: true, attributes: true, childList: true, characterData: true };
  new MutationObserver((all) => all.forEach(({ target }) => written.add(target.id || target.parentNode.id)))
    .observe(document.getElementById("controls"), watched);
  const scales = Object.entries(chartView._runtime.scales), range = document.getElementById("sequences-range");
  for (const stop of stops) {
    const seen = document.body.dataset.drawn, before = scales.map(([, each]) => each.stamp);
    range.value = stop;
    range.dispatchEvent(new Event("input", { bubbles: true }));
    while (document.body.dataset.drawn === seen) await new Promise(requestAnimationFrame);
    scales.forEach(([name, each], i) => { if (each.stamp !== before[i]) scaled.add(name); });
  }
  prototype.measureText = measureText;
  return { fonts: fonts.size, written: [...written].sort(), scaled: [...scaled] };
}"""


def test_a_move_does_again_only_what_it_changes(browser, file):
    """Texts are measured in a handful of fonts, the axes stand still, and no control but the moved one is written."""
    opened = Opened(browser, file, "sequences=64", before=KEEP)
    opened.page.wait_for_timeout(400)
    stop = opened.page.evaluate("Number(document.getElementById('sequences-range').value)")
    seen = opened.page.evaluate(MOVES, list(range(stop + 1, stop + 9)))

    assert seen["fonts"] <= 20
    assert seen["scaled"] == []
    assert seen["written"] == ["sequences-range", "tokens-in-pass"]
    opened.context.close()
