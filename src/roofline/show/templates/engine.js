// What the page says of a pass: settings in, numbers and sentences out. The arithmetic is not here: it is called, in
// the functions that were traced from the formulas of the package. `data` holds the catalogue and every word.
const rooflineEngine = (data, arithmetic) => {
  const { KIB, MIB, GIB, GIGA, TERA } = data.units;
  const places = { total: 0, memory: data.total.length, kernels: data.total.length + data.memory.length };

  // The device of a setting, with the figures that were changed by hand.
  const deviceOf = (setting, id = setting.device) => {
    const device = data.devices[id];
    if (id !== setting.device) return device;
    const { bandwidth, peak, capacity, link } = setting;
    if (bandwidth == null && peak == null && capacity == null && link == null) return device;
    const [wire, , latency] = device.link ?? [];
    return {
      ...device,
      changed: true,
      bandwidth: bandwidth ?? device.bandwidth,
      capacity: capacity ?? device.capacity,
      capacity_note: capacity == null ? device.capacity_note : "set by hand",
      peak: peak == null ? device.peak : { ...device.peak, [setting.compute]: peak },
      link: link == null || wire === undefined ? device.link : [wire, link, latency],
    };
  };

  const passOf = (setting) => {
    const { passes, calls } = data.models[setting.model];
    return calls[passes[`${setting.tp}${setting.phase[0]}${setting.fused ? "f" : ""}${setting.weights === data.stored ? "s" : ""}`]];
  };
  const newTokens = (setting) => (setting.phase === "decode" ? 1 : setting.new);
  const tokensOf = (setting) => setting.sequences * newTokens(setting);

  const put = (setting, device, shares) => {
    const weights = data.formats[setting.weights] ?? {}, kv = data.formats[setting.kv];
    const fresh = newTokens(setting);
    const rows = [setting.sequences, fresh, setting.context];
    const link = device.link ?? ["", Infinity, 0];
    const values = {
      sequences: setting.sequences, new: fresh,
      behind: arithmetic.behind[setting.phase](data.behind[setting.phase], rows)[0],
      all: setting.phase === "decode" ? 1 : 0,
      weight_bits: weights.bits, weight_rows: weights.rows, weight_columns: weights.columns,
      weight_scale: weights.scale, vector_bits: weights.vector_bits,
      kv_bits: kv.bits, kv_columns: kv.columns, kv_scale: kv.scale,
      activation_bits: data.formats[setting.activations].bits,
      bandwidth: device.bandwidth, link: link[1], latency: link[2],
      share_bandwidth: shares[0], share_compute: shares[1],
      "peak compute": device.peak[setting.compute],
    };
    // A rate that the device's file lacks takes no time, so that a bound stays a lower one.
    return data.variables.map((name) => values[name] ?? device.peak[name.slice("peak ".length)] ?? Infinity);
  };

  const sharesOf = (setting) => (setting.times === "derated" ? [setting.eb / 100, setting.ec / 100] : [1, 1]);

  const raw = (setting, device = deviceOf(setting), shares = sharesOf(setting)) => {
    const [fn, constants] = passOf(setting);
    return arithmetic.passes[fn](constants, put(setting, device, shares));
  };

  const named = (names, values, from) => {
    const found = {};
    for (let i = 0; i < names.length; i += 1) found[names[i]] = values[from + i];
    return found;
  };

  // The whole answer: totals, memory, and every kernel with its dims.
  const evaluate = (setting, device = deviceOf(setting), shares = sharesOf(setting)) => {
    const values = raw(setting, device, shares);
    const total = named(data.total, values, places.total);
    total.bound = data.resources[total.bound];
    let at = places.kernels;
    const kernels = data.kernels[passOf(setting)[2]].map(([name, part, op, count, kind, dims]) => {
      const kernel = { name, part, op, count, kind, ...named(data.kernel, values, at) };
      at += data.kernel.length;
      kernel.dims = named(dims, values, at);
      at += dims.length;
      kernel.bound = data.resources[kernel.bound];
      kernel.share = kernel.seconds / total.seconds;
      return kernel;
    });
    const held = named(data.memory, values, places.memory);
    return { setting, device, total, memory: held, kernels, ridge: device.peak[setting.compute] / device.bandwidth };
  };

  const totalBytes = (setting) => raw(setting)[places.memory + data.memory.indexOf("total_bytes")];

  // The largest n from 1 that fits; 0 where 1 does not, null where nothing does not.
  const largest = (fits) => {
    if (!fits(1)) return 0;
    let high = 2;
    while (fits(high)) if ((high *= 2) > data.largest) return null;
    let low = high / 2;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (fits(middle)) low = middle; else high = middle;
    }
    return low;
  };

  const memory = (answer) => {
    const { setting, device } = answer, capacity = device.capacity;
    const held = { ...answer.memory, capacity_bytes: capacity, fits: null, max_sequences: null, max_context: null };
    if (capacity == null) return held;
    held.fits = held.total_bytes <= capacity;
    held.max_sequences = largest((n) => totalBytes({ ...setting, sequences: n }) <= capacity);
    held.max_context = largest((n) => totalBytes({ ...setting, context: n }) <= capacity);
    return held;
  };

  // --- Figures as text: the forms of the command line -------------------------------------------------------------

  // Like toFixed, but what lies exactly between two goes to the even one.
  const fixed = (value, digits) => {
    const text = value.toFixed(digits), scaled = Math.abs(value) * 10 ** digits;
    if (Math.abs(scaled - Math.floor(scaled) - 0.5) > 1e-3) return text;
    if (!/^-?\d+\.\d*50*$/.test(Math.abs(value) < 1e15 ? value.toFixed(100) : "")) return text;
    const exact = value.toFixed(100), cut = exact.slice(0, exact.indexOf(".") + 1 + digits);
    if (!/^50*$/.test(exact.slice(cut.length))) return text;
    const kept = cut.endsWith(".") ? cut.slice(0, -1) : cut;
    return Number(kept.at(-1)) % 2 === 0 ? kept : text;
  };
  const grouped = (text) => {
    const [whole, rest] = text.split(".");
    const marked = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return rest === undefined ? marked : `${marked}.${rest}`;
  };
  const power = (value, digits) => value.toExponential(digits).replace(/e([+-])(\d)$/, "e$10$2");
  const significant = (value, digits = 3) => {
    if (value === 0) return "0";
    if (!Number.isFinite(value)) return value > 0 ? "inf" : value < 0 ? "-inf" : "nan";
    if (Math.abs(value) < 1e-7 || Math.abs(value) >= 1e16) return power(value, digits - 1);
    const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
    return grouped(fixed(value, Math.max(0, digits - 1 - exponent)));
  };
  const percent = (share, digits = 2) => `${significant(100 * share, share < 1 ? digits : digits + 1)} %`;
  const count = (value) => grouped(fixed(value, 0));

  const prefixed = (value, unit, small, digits = 4) => {
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const exponent = Number(power);
    const steps = small ? ["", "m", "u", "n", "p"] : ["", "k", "M", "G", "T", "P", "E"];
    const step = Math.min(steps.length - 1, Math.max(0, small ? -Math.floor(exponent / 3) : Math.floor(exponent / 3)));
    const shift = exponent - (small ? -3 : 3) * step;
    const figures = mantissa.replace(".", "").padEnd(shift + 1, "0");
    if (shift < 0) return `0.${"0".repeat(-shift - 1)}${figures} ${steps[step]}${unit}`;
    const whole = figures.slice(0, shift + 1), rest = figures.slice(shift + 1);
    return `${whole}${rest ? `.${rest}` : ""} ${steps[step]}${unit}`;
  };
  const si = (value, unit) => {
    if (value === 0) return `0 ${unit}`;
    if (unit !== "s") return prefixed(value, unit, false);
    return value >= 1 ? `${value < GIGA ? significant(value, 4) : power(value, 3)} s` : prefixed(value, unit, true);
  };
  const gib = (n) => {
    for (const [size, name] of [[GIB, "GiB"], [MIB, "MiB"], [KIB, "KiB"]]) {
      if (Math.abs(n) >= size) return `${grouped(fixed(n / size, 2)).replace(/0+$/, "").replace(/\.$/, "")} ${name}`;
    }
    return `${count(n)} B`;
  };
  const scale = (total, unit) => {
    const steps = [["P", 15], ["T", 12], ["G", 9], ["M", 6], ["k", 3], ["", 0], ["m", -3], ["u", -6], ["n", -9]];
    const least = unit === "s" ? 1 : 10;
    for (const [name, exponent] of steps) {
      const size = Number(`1e${exponent}`);
      if (total >= least * size && (unit === "s" ? exponent <= 0 : exponent >= 0)) return [size, name + unit];
    }
    return unit === "s" ? [1e-9, "ns"] : [1, unit];
  };
  const column = (values, size, digits = 4) => {
    const most = Math.max(0, ...values.map((each) => Math.abs(each) / size));
    const whole = most > 0 ? Math.floor(Math.log10(most)) + 1 : 1;
    const after = Math.min(4, Math.max(0, digits - Math.max(whole, 1)));
    return values.map((each) => grouped(fixed(each / size, after)));
  };
  const intensity = (value) => {
    if (!Number.isFinite(value)) return "";
    return value >= 1e6 ? value.toPrecision(3) : value < 10 ? fixed(value, 2) : significant(value);
  };
  const shareText = (value) => (value >= 0.0005 ? `${fixed(100 * value, 1)} %` : "<0.1 %");
  const many = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

  // --- Sentences -------------------------------------------------------------------------------------------------

  const verdict = (answer) => {
    const found = new Map();
    for (const kernel of answer.kernels) {
      const subject = data.subjects[kernel.op] ?? `${kernel.op} kernels`;
      const key = `${subject}|${kernel.bound}`;
      const before = found.get(key) ?? { subject, resource: kernel.bound, share: 0, flops: 0, bytes: 0 };
      before.share += kernel.bound_seconds / answer.total.bound_seconds;
      before.flops += kernel.flops;
      before.bytes += kernel.bytes;
      found.set(key, before);
    }
    const shares = [...found.values()].sort((a, b) => b.share - a.share);
    const first = shares.find((each) => each.resource === answer.total.bound);
    let said = `${data.verdicts[first.resource]}: ${first.subject} ${first.subject === data.attention ? "takes" : "take"}`;
    said += ` ${percent(first.share)} of the pass`;
    if (first.resource === "memory" || first.resource === "compute") {
      const own = significant(first.flops / first.bytes, first.flops < 100 * first.bytes ? 2 : 3);
      said += ` at ${own} FLOP/byte; the ridge is at ${significant(answer.ridge)}`;
    }
    const other = shares.find((each) => each.resource !== first.resource);
    if (!other || other.share < 0.2) return `${said}.`;
    const names = { compute: "Compute", memory: "Memory", link: "The link", launch: "Launching" };
    return `${said}. ${names[other.resource]} bounds ${other.subject}, another ${percent(other.share)}.`;
  };

  const settingText = (setting) => {
    const kinds = [["weights", setting.weights], ["KV", setting.kv], ["activations", setting.activations],
      ["compute", setting.compute]];
    const one = new Set(kinds.map(([, name]) => name)).size === 1;
    const formats = one ? setting.weights : kinds.map(([kind, name]) => `${kind} ${name}`).join(", ");
    const who = many(setting.sequences, "sequence");
    if (setting.phase === "decode") return `decode of ${who} at ${many(setting.context, "token")}, ${formats}`;
    const cached = setting.context ? `${count(setting.context)} cached` : "nothing";
    return `prefill of ${who} with ${many(setting.new, "new token")} on ${cached}, ${formats}`;
  };

  const subject = (answer) => {
    const ranks = answer.setting.tp > 1 ? `${answer.setting.tp} x ` : "";
    return `${data.models[answer.setting.model].name} on ${ranks}${answer.device.name}`;
  };

  const fitTexts = (answer, held) => {
    const each = answer.setting.tp > 1 ? " on each device" : "";
    if (held.capacity_bytes == null) {
      return [`${gib(held.total_bytes)}${each}. The capacity of ${answer.setting.device} is unknown.`];
    }
    const of = `${gib(held.total_bytes)} of ${gib(held.capacity_bytes)} (${answer.device.capacity_note})${each}`;
    const batch = held.max_sequences == null ? "No batch is too large."
      : held.max_sequences ? `Largest batch at this context: ${count(held.max_sequences)}.` : "No batch fits.";
    return [held.fits ? `Fits: ${of}.` : `Does not fit: ${of}.`, `${batch} ${longest(answer, held)}`];
  };
  const longest = (answer, held) => {
    if (held.max_context === 0 && !held.fits) return "No context fits.";
    const most = data.models[answer.setting.model].positions;
    const known = most && (held.max_context == null || held.max_context > most);
    const named = known ? ` (the config names ${count(most)})` : "";
    if (held.max_context == null) return `No context is too long${named}.`;
    const before = answer.setting.phase === "prefill" ? " before the new tokens" : "";
    return `Longest context${before} at this batch: ${count(held.max_context)}${named}.`;
  };

  // --- Where verdicts turn: a scan along an axis, settled by bisection ---------------------------------------------

  const grid = (() => {
    const points = Array.from({ length: 4096 }, (_, i) => i + 1);
    const steps = Math.ceil(Math.log(data.most / 4096) / Math.log(1.002));
    for (let i = 1; i <= steps; i += 1) {
      const n = i === steps ? data.most : Math.floor(4096 * Math.pow(data.most / 4096, i / steps));
      if (n > points.at(-1)) points.push(n);
    }
    return points;
  })();

  // Labels of every question at one answer, in the order of `questions`.
  const gemm = (kernel) => data.subjects[kernel.op] === data.gemms;
  const attends = (kernel) => data.subjects[kernel.op] === data.attention;
  const sum = (kernels, field) => kernels.reduce((all, each) => all + each[field], 0);
  const questions = (answer, byRows) => {
    const asked = [];
    if (byRows) {
      for (const each of answer.kernels) if (gemm(each) || attends(each)) asked.push([each.name, each.bound]);
    }
    const layers = answer.kernels.filter((each) => gemm(each) && each.part !== "head");
    if (layers.length) {
      const above = sum(layers, "flops") > answer.ridge * sum(layers, "bytes");
      asked.push(["layer GEMMs together", above ? "compute" : "memory"]);
    }
    asked.push(["the pass", answer.total.bound]);
    const attention = answer.kernels.filter(attends);
    if (attention.length) {
      const longer = sum(attention, "bound_seconds") > sum(answer.kernels.filter(gemm), "bound_seconds");
      asked.push(["attention or weights", longer ? "attention" : "weights"]);
    }
    return asked;
  };

  const derated = (setting) => {
    const device = deviceOf(setting), [bandwidth, compute] = sharesOf(setting);
    const peak = Object.fromEntries(Object.entries(device.peak).map(([rate, value]) => [rate, value * compute]));
    return { ...device, bandwidth: device.bandwidth * bandwidth, peak };
  };
  // What a pass tends to as its sequences grow without end: what each further one adds, far out.
  const tends = (setting) => {
    const device = derated(setting), totals = (n) => evaluate({ ...setting, sequences: n }, device, [1, 1]).total;
    const adds = (n) => {
      const near = totals(n), beyond = totals(2 * n);
      return { seconds: (beyond.bound_seconds - near.bound_seconds) / n, intensity: (beyond.flops - near.flops) / (beyond.bytes - near.bytes) };
    };
    const first = adds(data.far), later = adds(4 * data.far), alone = totals(1).bound_seconds;
    const steady = Math.abs(later.intensity / first.intensity - 1) < 2 ** -30;
    // What a pass takes before any sequence is in it, over what each further one adds.
    const knee = (2 * alone - totals(2).bound_seconds) / first.seconds;
    return { rate: newTokens(setting) / first.seconds, intensity: steady ? later.intensity : null, knee: Math.max(1, Math.ceil(knee)) };
  };
  // What else is asked along an axis: a name, and its label at n, of whose pass the answer is given.
  const further = (setting, axis) => {
    const device = derated(setting), total = (changes, name) => raw({ ...setting, ...changes }, device, [1, 1])[data.total.indexOf(name)];
    if (axis === "context") {
      const bound = (n) => data.resources[total({ sequences: data.far, context: n }, "bound")];
      return [["compute-bound by batch", (n) => (bound(n) === "compute" ? "reachable" : "out of reach")]];
    }
    const asked = [];
    if (axis === "sequences") {
      const enough = data.nearly * tends(setting).rate;
      asked.push(["most tokens/s", (_, answer) => (answer.total.tokens_per_second >= enough ? "reached" : "below")]);
    } else {
      const dear = (1 + data.short) * total({ [axis]: 1 }, "bound_seconds");
      asked.push(["cost of a short prompt", (_, answer) => (answer.total.bound_seconds > dear ? "dearer" : "as cheap")]);
    }
    for (const weights of data.smaller[setting.weights] ?? []) {
      const gain = (n, answer) => answer.total.bound_seconds / total({ weights, [axis]: n }, "bound_seconds") - 1;
      asked.push([`${weights} weights for ${setting.weights}`, (n, answer) => (gain(n, answer) < data.slight ? "idle" : "help")]);
    }
    return asked;
  };

  // The turns along an axis, as a generator that pauses so that a page can go on.
  function* crossovers(setting, axis) {
    const device = derated(setting), others = further(setting, axis);
    const at = (n) => {
      const answer = evaluate({ ...setting, [axis]: n }, device, [1, 1]);
      return [...questions(answer, axis !== "context"), ...others.map(([name, label]) => [name, label(n, answer)])];
    };
    const exactly = (question, low, high) => {
      const label = (n) => at(n)[question][1];
      const turns = [];
      let before = label(low);
      while (before !== label(high)) {
        let left = low, right = high;
        while (right - left > 1) {
          const middle = Math.floor((left + right) / 2);
          if (label(middle) === before) left = middle; else right = middle;
        }
        turns.push({ value: right, before, after: label(right) });
        [low, before] = [right, label(right)];
      }
      return turns;
    };
    let last = at(1);
    const found = last.map(([name, held]) => ({ name, axis, held, turns: [] }));
    for (let i = 1; i < grid.length; i += 1) {
      const next = at(grid[i]);
      for (let q = 0; q < next.length; q += 1) {
        if (next[q][1] !== last[q][1]) found[q].turns.push(...exactly(q, grid[i - 1], grid[i]));
      }
      last = next;
      if (i % 64 === 0) yield null;
    }
    if (axis === "sequences") found.push({ name: "knee of throughput", axis, turns: [{ value: tends(setting).knee, before: "shared", after: "own" }] });
    yield found;
  }

  return {
    evaluate, memory, crossovers, tends, verdict, settingText, subject, fitTexts, deviceOf, tokensOf, raw,
    text: { significant, percent, count, si, gib, scale, column, intensity, share: shareText, many },
  };
};
if (typeof module !== "undefined") module.exports = rooflineEngine;
