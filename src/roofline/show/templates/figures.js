// The chart and its rows: what `roofline.show.dots` writes for a picture, for a chart that moves.
const rooflineFigures = (data, spec, engine) => {
  const { significant, percent, si, scale } = engine.text;
  const named = 3;

  const kernelRows = (answer) => answer.kernels.map((kernel, row) => {
    const drawn = kernel.flops > 0 && kernel.bytes > 0 && kernel.seconds > 0;
    const placed = drawn
      ? `${significant(kernel.flops / kernel.bytes)} FLOP/byte, ${si(kernel.flops / kernel.seconds, "FLOP/s")}, bound by ${kernel.bound}`
      : `${si(kernel.seconds, "s")}, not drawn`;
    return {
      row, name: kernel.name, kind: kernel.kind, count: kernel.count, flops: kernel.flops, bytes: kernel.bytes,
      seconds: kernel.seconds, bound_seconds: kernel.bound_seconds, bound: kernel.bound,
      time: answer.setting.times, share: kernel.share,
      short: kernel.name.length > 28 ? `${kernel.name.slice(0, 27)}…` : kernel.name,
      spoken: `${kernel.name}: ${percent(kernel.share)} of the time, ${placed}`, drawn,
    };
  });

  const totalRows = (answer, rows) => {
    const { flops, bytes, seconds, bound_seconds } = answer.total;
    if (rows.length < 2 || !(flops && bytes && seconds)) return [];
    const text = `${significant(flops / bytes)} FLOP/byte, ${si(flops / seconds, "FLOP/s")}`;
    const count = rows.reduce((all, each) => all + each.count, 0);
    return [{ name: "whole pass", label: "whole pass", kind: "", count, flops, bytes, seconds, bound_seconds, bound: "",
      time: answer.setting.times, share: 1, spoken: `whole pass: ${text}` }];
  };

  const roofRows = (given) => {
    const main = given[0], rates = [main.setting.compute];
    if (main.device.peak["fp32-vector"]) rates.push("fp32-vector");
    const answers = given.filter(({ device }, index) => !index || device !== main.device);
    return answers.flatMap(({ device, setting }, index) => {
      // One whose figures were changed, beside the listed one.
      const own = device.changed && answers.some((each) => each.setting.device === setting.device && each.device !== device);
      const whose = answers.length > 1 ? `${own ? "your " : ""}${setting.device} ` : "";
      return (index ? rates.slice(0, 1) : rates).filter((rate) => device.peak[rate]).map((rate, nth) => {
        const ridge = device.peak[rate] / device.bandwidth;
        return {
          device: device.name, bandwidth: device.bandwidth, peak: device.peak[rate], main: index === 0 && nth === 0,
          slope: nth ? "" : `${whose}${si(device.bandwidth, "B/s")}`, slope_short: nth ? "" : si(device.bandwidth, "B/s"),
          flat: `${whose}${si(device.peak[rate], "FLOP/s")} ${rate}`, flat_short: `${si(device.peak[rate], "FLOP/s")} ${rate}`,
          ridge_label: `${nth ? "" : whose}ridge ${significant(ridge)}${nth ? "" : " FLOP/byte"}`,
        };
      });
    });
  };

  const footnotes = (rows) => {
    const left = rows.filter((each) => !each.drawn);
    if (!left.length) return [];
    const share = left.reduce((all, each) => all + each.share, 0);
    const more = left.length > named ? ` and ${left.length - named} more` : "";
    const part = share >= 0.0005 ? percent(share) : "<0.1 %";
    return [`Not drawn, without FLOPs, ${part} of the time: ${left.slice(0, named).map((each) => each.name).join(", ")}${more}`];
  };

  const spoken = (rows, roofs) => {
    const costly = [...rows].sort((a, b) => b.share - a.share).slice(0, named).map((each) => each.spoken);
    const texts = roofs.flatMap((each) => [each.slope, each.flat, each.ridge_label]).filter(Boolean);
    return `Roofline. Roofs: ${texts.join("; ")}. ${rows.length} kernels, the costliest: ${costly.join("; ")}.`;
  };

  // The rows and signals of the specification for an answer, beside another's roof.
  const drawing = (answers) => {
    const kernels = kernelRows(answers[0]), roofs = roofRows(answers);
    const [rate_size, rate_unit] = scale(Math.max(...roofs.map((each) => each.peak)), "FLOP/s");
    const shown = new Set(kernels.filter((each) => each.drawn).map((each) => each.kind));
    const kinds = data.kinds.filter((each) => shown.has(each));
    const signals = { rate_size, rate_unit, kinds, footnote: footnotes(kernels) };
    return { rows: { kernels, roofs, total: totalRows(answers[0], kernels) }, signals };
  };

  // The chart in its place; answers a function that draws an answer, beside another's roof.
  const chart = async (place, firstAnswers) => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const beside = spec.usermeta.beside;
    const room = () => Math.max(200, Math.min(place.clientWidth, 940) - beside);
    spec.width = room();
    spec.signals.find((each) => each.name === "dark").value = dark.matches;
    const options = { ast: true, actions: false, renderer: "canvas", tooltip: { theme: dark.matches ? "dark" : "light" } };
    const start = drawing(firstAnswers), clone = structuredClone(spec);
    for (const each of clone.data) if (each.name in start.rows) each.values = structuredClone(start.rows[each.name]);
    for (const each of clone.signals) if (each.name in start.signals) each.value = start.signals[each.name];
    const { view } = await vegaEmbed(place, clone, options);
    for (const each of place.querySelectorAll("canvas, svg")) each.setAttribute("aria-hidden", "true");
    // Rows in place of those before. While something moves, as many rows change where they are, which is faster; what is
    // drawn of each keeps its place among the others, so that they are drawn anew once it stands still.
    const renew = (name, rows, moving) => {
      const before = view.data(name);
      if (!moving || before.length !== rows.length) { view.data(name, rows); return; }
      const changes = view.changeset();
      rows.forEach((row, i) => {
        for (const [key, value] of Object.entries(row)) if (before[i][key] !== value) changes.modify(before[i], key, value);
      });
      view.change(name, changes);
    };
    const draw = (answers, moving = false) => {
      const { rows, signals } = drawing(answers);
      for (const [name, value] of Object.entries(signals)) {
        if (JSON.stringify(view.signal(name)) !== JSON.stringify(value)) view.signal(name, value);
      }
      const text = JSON.stringify(rows.roofs);
      if (text !== draw.roofs) view.data("roofs", rows.roofs);
      draw.roofs = text;
      renew("kernels", rows.kernels, moving);
      renew("total", rows.total, moving);
      place.setAttribute("aria-label", spoken(rows.kernels, rows.roofs));
      view.run();
    };
    const fit = () => { if (place.clientWidth && view.signal("width") !== room()) view.signal("width", room()).run(); };
    new ResizeObserver(fit).observe(place);
    const ground = (value) => view.signal("dark", value).run();
    dark.addEventListener("change", () => ground(dark.matches));
    addEventListener("beforeprint", () => ground(false)); // paper is light
    addEventListener("afterprint", () => ground(dark.matches));
    return { draw, view };
  };

  return { chart, kernelRows, roofRows, totalRows };
};
