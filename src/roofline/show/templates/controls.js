// The page itself: controls, the walk through, and the address that holds the whole setting.
(async () => {
  const read = (id) => JSON.parse(document.getElementById(`page-${id}`).textContent);
  const data = read("data"), guide = read("guide");
  const engine = rooflineEngine(data, rooflineArithmetic);
  const { significant, percent, count, si, gib, many } = engine.text;
  const { GIB, GIGA, TERA } = data.units;
  const { $, make, set, put, say } = rooflineDom;
  const tables = rooflineTables(data, engine);

  // --- The setting -----------------------------------------------------------------------------------------------

  const first = Object.keys(data.models)[0];
  const DEFAULTS = {
    model: first, device: data.devices[data.device] ? data.device : Object.keys(data.devices)[0], against: "",
    phase: "decode", sequences: 1, new: 2048, context: 8192, tp: 1,
    weights: "", kv: "bf16", activations: "bf16", compute: "bf16",
    times: "bound", eb: 80, ec: 75, fused: false,
    bandwidth: null, peak: null, capacity: null, link: null, arithmetic: false, step: 0,
  };
  // Weights are as the model's file says they are stored, where it does.
  const usualWeights = (model) => (data.models[model]?.stored ? data.stored : "bf16");
  const PHASE_CONTEXT = { decode: 8192, prefill: 0 };
  const HELD = { bandwidth: GIGA, peak: TERA, capacity: GIB, link: GIGA }; // what a figure's field is written in
  const octaves = (most, parts) => {
    const found = new Set();
    for (let i = 0; i <= Math.log2(most) * parts; i += 1) found.add(Math.round(2 ** (i / parts)));
    return [...found];
  };
  const whole = (least, most) => Array.from({ length: most - least + 1 }, (_, i) => least + i);
  const STOPS = {
    sequences: octaves(4096, 8), new: octaves(131072, 4), context: [0, ...octaves(1048576, 4)],
    tp: [1, 2, 4, 8, 16, 32, 64], eb: whole(1, 100), ec: whole(1, 100),
  };
  const LIMITS = { sequences: [1, 4096], new: [1, 131072], context: [0, 1048576], eb: [1, 100], ec: [1, 100] };
  let state = { ...DEFAULTS };

  const ranksFor = (setting) => {
    const passes = data.models[setting.model].passes, known = engine.deviceOf(setting);
    const allowed = known.ranks.filter((n) => `${n}${setting.phase[0]}` in passes);
    return allowed.length ? allowed : [1];
  };
  // Formats of weights; of a model whose file says how its own are stored, that too.
  const weightsOf = (setting) => [...Object.keys(data.formats), ...(data.models[setting.model].stored ? [data.stored] : [])];
  // A setting that can be: what is unknown or out of range becomes what is nearest to it.
  const possible = (setting) => {
    const good = { ...setting };
    const known = (key, options) => { if (!options.includes(good[key])) good[key] = options.includes(DEFAULTS[key]) ? DEFAULTS[key] : options[0]; };
    known("model", Object.keys(data.models));
    known("device", Object.keys(data.devices));
    if (good.against && !(good.against in data.devices)) good.against = "";
    known("phase", ["decode", "prefill"]);
    known("times", ["bound", "derated"]);
    for (const [key, [least, most]] of Object.entries(LIMITS)) {
      good[key] = Math.min(most, Math.max(least, Math.round(Number.isFinite(good[key]) ? good[key] : DEFAULTS[key])));
    }
    if (!weightsOf(good).includes(good.weights)) good.weights = usualWeights(good.model);
    known("kv", data.kv);
    known("activations", data.activations);
    known("compute", data.devices[good.device].rates);
    for (const key of Object.keys(HELD)) if (!(good[key] > 0 && Number.isFinite(good[key]))) good[key] = null;
    const ranks = ranksFor(good);
    if (!ranks.includes(good.tp)) good.tp = ranks.filter((n) => n <= good.tp).at(-1) ?? ranks[0];
    good.step = guide.steps[good.step - 1] ? good.step : 0;
    return good;
  };

  const fromHash = () => {
    const found = { ...DEFAULTS };
    for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
      if (!(key in DEFAULTS)) continue;
      const kind = typeof DEFAULTS[key];
      found[key] = kind === "boolean" ? text === "1" : kind === "number" || key in HELD ? Number(text) : text;
    }
    return possible(found);
  };
  const toHash = () => {
    const words = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      const usual = key === "weights" ? usualWeights(state.model) : DEFAULTS[key];
      if (value !== usual || key === "model" || key === "device") words.set(key, value === true ? "1" : value);
    }
    return `#${words}`;
  };

  // --- Controls --------------------------------------------------------------------------------------------------

  const options = (id, entries) => {
    const place = $(id);
    const group = new Map();
    for (const [value, text, of] of entries) {
      const option = make("option", text, { value });
      if (!of) { place.append(option); continue; }
      if (!group.has(of)) { group.set(of, make("optgroup", undefined, { label: of })); place.append(group.get(of)); }
      group.get(of).append(option);
    }
  };
  const plain = (names) => names.map((name) => [name, name]);
  options("model", Object.entries(data.models).map(([id, each]) => [id, each.name]));
  const listed = Object.entries(data.devices).map(([id, each]) => [id, each.name, each.vendor || "others"]);
  options("device", listed);
  options("against", [["", "nothing"], ...listed]);
  options("kv", plain(data.kv));
  options("activations", plain(data.activations));

  // Choices that depend on another: made again where they are others.
  const renewed = (id, names) => {
    const place = $(id);
    if (place.dataset.names === names.join()) return;
    place.dataset.names = names.join();
    place.replaceChildren();
    options(id, plain(names));
  };
  const stopsOf = (key) => (key === "tp" ? ranksFor(state) : STOPS[key]);
  const nearest = (stops, value) => stops.reduce((best, each, i) => (Math.abs(each - value) < Math.abs(stops[best] - value) ? i : best), 0);
  const rowOf = Object.fromEntries([...document.querySelectorAll("[data-for]")].map((row) => [row.dataset.for, row]));
  const writeControls = () => {
    renewed("weights", weightsOf(state));
    renewed("compute", data.devices[state.device].rates);
    for (const key of ["model", "device", "against", "weights", "kv", "activations", "compute"]) put($(key), "value", state[key]);
    put($(`phase-${state.phase}`), "checked", true);
    put($(`times-${state.times}`), "checked", true);
    put($("fused"), "checked", state.fused);
    put($("arithmetic"), "checked", state.arithmetic);
    for (const key of Object.keys(STOPS)) {
      const stops = stopsOf(key), range = $(`${key}-range`), field = $(key);
      put(range, "max", `${stops.length - 1}`);
      put(range, "value", `${nearest(stops, state[key])}`);
      say(range, "aria-valuetext", count(state[key]));
      put(range, "disabled", stops.length === 1);
      if (document.activeElement !== field || Number(field.value) !== state[key]) put(field, "value", `${state[key]}`);
    }
    const listed = data.devices[state.device];
    const known = { bandwidth: listed.bandwidth, peak: listed.peak[state.compute], capacity: listed.capacity, link: listed.link?.[1] };
    for (const [key, unit] of Object.entries(HELD)) {
      const field = $(key), value = state[key] ?? known[key];
      if (document.activeElement !== field) put(field, "value", value == null ? "" : `${Number((value / unit).toPrecision(6))}`);
      put(field, "disabled", known[key] == null && key === "link");
    }
    if (Object.keys(HELD).some((key) => state[key] != null)) put($("hypothetical"), "open", true);
    put(rowOf.new, "hidden", state.phase === "decode");
    for (const key of ["eb", "ec"]) put(rowOf[key], "hidden", state.times === "bound");
    set(rowOf.context.querySelector("label"), state.phase === "decode" ? "Context" : "Cached before");
    set($("tokens-in-pass"), `${many(engine.tokensOf(state), "token")} in the pass`);
  };

  const change = (changes, { keepStep = false } = {}) => {
    state = possible({ ...state, ...changes, ...(keepStep ? {} : { step: state.step }) });
    schedule();
  };
  const figures = { bandwidth: null, peak: null, capacity: null, link: null };
  $("controls").addEventListener("input", ({ target }) => {
    const { id, value } = target;
    if (id.endsWith("-range")) {
      const key = id.slice(0, -"-range".length);
      change({ [key]: stopsOf(key)[Number(value)] });
    } else if (id in STOPS) {
      if (value !== "" && Number.isFinite(Number(value))) change({ [id]: Number(value) });
    } else if (id in HELD) {
      change({ [id]: value === "" ? null : Number(value) * HELD[id] });
    } else if (target.name === "phase") {
      const moved = state.context === PHASE_CONTEXT[state.phase] ? { context: PHASE_CONTEXT[value] } : {};
      change({ phase: value, ...moved });
    } else if (target.name === "times") change({ times: value });
    else if (id === "fused") change({ fused: target.checked });
    else if (id === "model") change({ model: value, ...(state.weights === usualWeights(state.model) ? { weights: "" } : {}) });
    else change({ [id]: value, ...(id === "device" ? figures : id === "compute" ? { peak: null } : {}) });
  });
  $("controls").addEventListener("change", writeAll);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("as-listed").addEventListener("click", () => change(figures));
  $("arithmetic").addEventListener("change", ({ target }) => change({ arithmetic: target.checked }));
  function writeAll() { writeControls(); }

  // --- The answer ------------------------------------------------------------------------------------------------

  let answer, beside, held;
  // Why the other device cannot be compared with, or "".
  const apart = ({ name, peak, ranks }) => (!peak[state.compute] ? `${name} has no known ${state.compute} peak to compare with`
    : ranks.includes(state.tp) ? "" : `${name} has no known link that joins ${state.tp} ranks to compare with`);
  const against = () => (state.against && !apart(data.devices[state.against])
    ? engine.evaluate({ ...state, device: state.against, against: "", ...figures }) : null);

  const warnings = () => {
    const said = [...answer.device.assumptions, ...data.models[state.model].assumptions];
    const reached = state.phase === "prefill" ? state.context + state.new : state.context;
    const most = data.models[state.model].positions;
    if (most && reached > most) said.push(`${count(reached)} positions are past the ${count(most)} that the model's config names`);
    if (answer.device.changed) said.push(`${state.device} with figures of your own: a hypothetical device`);
    if (state.against && !beside) said.push(apart(data.devices[state.against]));
    return said;
  };
  const assumptions = () => {
    const said = ["Bytes are ideal, each operand once; attention is tiled, reads K and V once and appends the new ones"];
    said.push(state.times === "bound"
      ? "Times are bounds: kernels one after another at the datasheet's peak or bandwidth; overlapping kernels can beat the sum, not the floor"
      : `Derated times take ${state.eb} % of the bandwidth and ${state.ec} % of every peak; bounds, roofs and verdict are undiscounted; links are whole`);
    const bits = data.formats[state.weights]?.bits ?? 16;
    if (state.weights === data.stored) said.push("Weights are in the formats that the model's file says, unpacking them is not charged");
    if (bits < 16 && ["bf16", "fp16", "tf32"].includes(state.compute)) said.push(`${state.weights} weights shrink bytes, not arithmetic, which stays ${state.compute}; unpacking them is not charged`);
    if (state.tp > 1) said.push(`FLOPs, bytes, times and memory are of one of ${state.tp} ranks, tokens/s of all together; all-reduces are rings and not overlapped`);
    if (!answer.device.peak["fp32-vector"]) said.push(`The fp32-vector peak of ${state.device} is unknown: small kernels are bounded by memory alone`);
    said.push("Memory is weights, cache and the hungriest kernel's activations; a runtime keeps some more for itself");
    return said;
  };

  // Turns are looked for while nothing else happens, a slice of the search at a time.
  const AXES = { sequences: "sequences", new: "new tokens", context: "context" };
  let search = 0;
  const lookForTurns = () => {
    const own = (search += 1), setting = { ...state };
    const axes = setting.phase === "decode" ? ["sequences", "context"] : ["new"];
    const rows = [];
    $("turns").setAttribute("aria-busy", "true");
    const walk = (axis, steps) => {
      if (own !== search) return;
      const until = performance.now() + 6;
      let found = null;
      while (!found && performance.now() < until) found = steps.next().value;
      if (!found) { setTimeout(walk, 0, axis, steps); return; }
      for (const { name, held: label, turns } of found) {
        const turned = ({ before, after, value }) =>
          (data.then[after] ? `${data.then[after]} from ${count(value)}` : `${before} to ${after} at ${count(value)}`);
        const said = turns.length ? turns.map(turned).join("; ") : `${data.then[label] ?? label} throughout`;
        rows.push([[name, "text name"], [AXES[axis], "text"], [said, "text"]]);
      }
      if (axes.length) { const next = axes.shift(); setTimeout(walk, 0, next, engine.crossovers(setting, next)); return; }
      tables.fill($("turns").tBodies[0], rows);
      const { rate, intensity: far } = setting.phase === "decode" ? engine.tends(state) : {};
      const to = far == null ? "" : `As the batch grows the pass tends to ${significant(rate, 4)} tokens/s at ${significant(far)} FLOP/byte.`;
      set($("tends"), to);
      put($("tends"), "hidden", !to);
      $("turns").removeAttribute("aria-busy");
    };
    const start = axes.shift();
    walk(start, engine.crossovers(setting, start));
  };

  // --- The walk through ------------------------------------------------------------------------------------------

  const stepSetting = (changes) => {
    const { peak_times: times, ...rest } = changes;
    const setting = { ...DEFAULTS, ...guide.start, ...rest };
    if (times) setting.peak = times * data.devices[setting.device].peak[setting.compute];
    return possible(setting);
  };
  const stepWords = (step) => {
    const told = (setting) => {
      const found = engine.evaluate(setting), { total } = found;
      const attention = found.kernels.filter((each) => data.subjects[each.op] === data.attention).reduce((all, each) => all + each.share, 0);
      return { rate: total.tokens_per_second, top: found.device.peak[setting.compute], words: {
        tokens: significant(total.tokens_per_second, 4), bytes: gib(total.bytes), flops: si(total.flops, "FLOP"),
        intensity: significant(total.intensity), ridge: significant(found.ridge), of_peak: percent(total.of_peak), attention: percent(attention),
      } };
    };
    const own = told(stepSetting(step.set)), words = { ...own.words };
    for (const [name, changes] of Object.entries(step.beside)) {
      const other = told(stepSetting(changes));
      for (const [key, value] of Object.entries(other.words)) words[`${name}.${key}`] = value;
      words[`gain.${name}`] = percent(own.rate / other.rate - 1);
      words[`times.${name}`] = significant(own.rate / other.rate);
      words[`peaks.${name}`] = significant(own.top / other.top);
    }
    return step.text.replace(/\{([a-z_.0-9]+)\}/g, (_, key) => words[key]);
  };
  const writeGuide = () => {
    put($("guide"), "hidden", !state.step);
    put($("walk"), "hidden", !guide.steps.length);
    if (!state.step) return;
    const step = guide.steps[state.step - 1];
    set($("guide-place"), `Step ${state.step} of ${guide.steps.length}`);
    set($("guide-title"), step.title);
    set($("guide-text"), stepWords(step));
    $("guide-back").disabled = state.step === 1;
    $("guide-next").disabled = state.step === guide.steps.length;
  };
  const go = (number) => {
    state = { ...stepSetting(guide.steps[number - 1].set), arithmetic: state.arithmetic, step: number };
    schedule();
  };
  $("walk").addEventListener("click", () => {
    go(1);
    requestAnimationFrame(() => { $("guide").scrollIntoView({ block: "start" }); $("guide-next").focus(); });
  });
  $("guide-back").addEventListener("click", () => go(state.step - 1));
  $("guide-next").addEventListener("click", () => go(state.step + 1));
  $("guide-close").addEventListener("click", () => { change({ step: 0 }, { keepStep: true }); $("walk").focus(); });

  // --- Out of the page -------------------------------------------------------------------------------------------

  const tell = (text) => { $("told").textContent = text; setTimeout(() => { if ($("told").textContent === text) $("told").textContent = ""; }, 4000); };
  const save = (name, type, content) => {
    const url = URL.createObjectURL(new Blob([content], { type }));
    const link = make("a", undefined, { href: url, download: `roofline-${state.model}-${state.device}.${name}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
    tell(`Saved ${link.download}`);
  };
  const record = () => ({
    schema: "roofline.page/1", model: data.models[state.model].name, device: { id: state.device, name: answer.device.name },
    address: location.hash, setting: state, verdict: engine.verdict(answer), total: answer.total, kernels: answer.kernels, memory: held,
    assumptions: [...warnings(), ...assumptions()],
  });
  const csv = () => {
    const fields = ["name", "part", "op", "count", "flops", "bytes", "weight_bytes", "kv_bytes", "link_bytes", "seconds", "bound_seconds", "bound", "share"];
    // A name is quoted; one that a spreadsheet would take for a formula is kept from being one.
    const cell = (value) => (typeof value === "number" ? value : `"${`${value}`.replace(/^[=+\-@]/, "'$&").replaceAll('"', '""')}"`);
    return [fields.join(), ...answer.kernels.map((each) => fields.map((name) => cell(each[name])).join())].join("\n") + "\n";
  };
  $("save-csv").addEventListener("click", () => save("csv", "text/csv", csv()));
  $("save-json").addEventListener("click", () => save("json", "application/json", `${JSON.stringify(record(), null, 1)}\n`));
  $("save-svg").addEventListener("click", async () => save("svg", "image/svg+xml", await chart.view.toSVG()));
  $("save-png").addEventListener("click", async () => {
    const canvas = await chart.view.toCanvas(2);
    canvas.toBlob((blob) => save("png", "image/png", blob), "image/png");
  });
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(location.href); tell("Link copied"); } catch { tell("The address bar holds the link"); }
  });

  // The drawing library lies in the page packed: unpacked it is the script that the page's policy names by its hash.
  const unpacked = async () => {
    const packed = Uint8Array.from(atob($("page-vega").textContent), (each) => each.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = make("script", await new Response(stream).text());
    document.head.append(script);
  };

  // --- Drawing ---------------------------------------------------------------------------------------------------

  // `known` is the address that the page has read or written: another one is a change still to be heard of.
  let chart = null, waiting = false, moved = false, later = 0, known = location.hash;
  const render = () => {
    waiting = false;
    answer = engine.evaluate(state);
    beside = against();
    held = engine.memory(answer);
    writeControls();
    set($("subject"), engine.subject(answer));
    set($("setting"), engine.settingText(state));
    set($("verdict"), engine.verdict(answer));
    set($("brief"), `${significant(answer.total.tokens_per_second, 4)} tokens/s · ${significant(answer.total.intensity)} FLOP/byte · ${answer.total.bound}-bound`);
    tables.readouts(answer, held, beside);
    tables.kernels(answer);
    tables.memory(answer, held);
    const said = warnings();
    set($("warnings"), said.length ? `${said.join(". ")}.` : "");
    put($("warnings"), "hidden", !said.length);
    const lines = assumptions(), list = $("assumptions");
    if (list.dataset.text !== lines.join()) { list.dataset.text = lines.join(); list.replaceChildren(...lines.map((each) => make("li", each))); }
    writeGuide();
    if (chart) chart.draw(answers(), true);
    clearTimeout(later);
    search += 1;
    later = setTimeout(settle, 150);
    document.body.dataset.drawn = toHash();
  };
  const answers = () => (beside ? [answer, beside] : [answer]);
  // What need not follow every move of a slider.
  const settle = () => {
    if (location.hash === known && known !== toHash()) history.replaceState(null, "", (known = toHash()));
    if (chart) chart.draw(answers());
    lookForTurns();
  };
  function schedule() { moved = true; if (!waiting) { waiting = true; requestAnimationFrame(render); } }
  // What draws a move has run before the first one, while nothing else happened, since browsers make fast what has run:
  // another setting is drawn and then the page's own in its place, so that nothing is seen of it.
  const idle = window.requestIdleCallback ?? ((then) => setTimeout(then, 50));
  const rehearse = (left) => idle(() => {
    if (moved || !left) return;
    chart.draw([engine.evaluate({ ...state, sequences: state.sequences + left })], true);
    chart.draw(answers());
    rehearse(left - 1);
  });
  addEventListener("hashchange", () => {
    known = location.hash;
    if (known !== toHash()) { state = fromHash(); schedule(); }
  });

  state = fromHash();
  render();
  await unpacked();
  chart = await rooflineFigures(data, read("spec"), engine).chart($("roofline"), answers());
  render();
  document.body.dataset.ready = "yes";
  rehearse(15);
})();
