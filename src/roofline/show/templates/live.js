// Draws each figure's specification where it stands, as wide as its place, in the colours that the reader prefers.
// What Vega evaluates is interpreted, never compiled, so the page needs no right to make code of text.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const spare = (spec) => spec.usermeta.beside;
  for (const figure of document.querySelectorAll("figure[data-live]")) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const place = figure.querySelector(".live");
    const room = () => Math.max(200, Math.min(figure.clientWidth, spec.width + spare(spec)) - spare(spec));
    figure.classList.add("on");
    spec.width = room();
    spec.signals.find((each) => each.name === "dark").value = dark.matches;
    const options = { ast: true, actions: false, renderer: "svg", tooltip: { theme: dark.matches ? "dark" : "light" } };
    vegaEmbed(place, spec, options).then(({ view }) => {
      new ResizeObserver(() => {
        if (figure.clientWidth && view.signal("width") !== room()) view.signal("width", room()).runAsync();
      }).observe(figure);
      dark.addEventListener("change", () => view.signal("dark", dark.matches).runAsync());
    }).catch(() => figure.classList.remove("on"));
  }
})();
