// What the page shows of an answer: readouts, the table of kernels, what is held; and how anything is written into it.
const rooflineDom = (() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  // What a move of a slider leaves as it was is not written again: a page that is written is laid out anew.
  const set = (node, text) => { if (node.written !== text) node.textContent = node.written = text; };
  const put = (node, name, value) => { if (node[name] !== value) node[name] = value; };
  const say = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
  return { $, make, set, put, say };
})();

const rooflineTables = (data, engine) => {
  const { $, make, set, put, say } = rooflineDom;
  const { significant, percent, count, si, gib, scale, column, intensity, share } = engine.text;

  const readoutsOf = ({ total, device, setting, ridge }) => [
    ["tokens_per_second", "tokens/s", total.tokens_per_second, significant(total.tokens_per_second, 4),
      setting.times === "bound" ? "at the bound" : `at ${setting.eb} % bandwidth, ${setting.ec} % peak`],
    ["seconds", "a pass", total.seconds, si(total.seconds, "s"), `floor ${si(total.floor_seconds, "s")}`],
    ["intensity", "intensity", total.intensity, `${significant(total.intensity)} FLOP/byte`, `ridge ${significant(ridge)}`],
    ["of_peak", "of peak", total.of_peak, percent(total.of_peak), `of ${si(device.peak[setting.compute], "FLOP/s")} ${setting.compute}, dense`],
    ["bytes", "bytes moved", total.bytes, gib(total.bytes), `for ${si(total.flops, "FLOP")}`],
  ];
  // What stands on top, with the other device's figures below.
  const readouts = (answer, held, beside) => {
    const place = $("readouts"), rows = readoutsOf(answer);
    const fit = held.fits == null ? "unknown" : held.fits ? "fits" : "does not fit";
    rows.push(["total_bytes", "memory", held.total_bytes, gib(held.total_bytes),
      held.capacity_bytes == null ? "capacity unknown" : `of ${gib(held.capacity_bytes)}: ${fit}`]);
    const other = beside ? readoutsOf(beside) : [];
    rows.forEach(([key, name, value, text, meaning], i) => {
      let box = place.children[i];
      if (!box) {
        box = make("div");
        box.append(make("dt", name), make("dd", "", { id: `out-${key}` }), make("dd"), make("dd", "", { class: "beside" }));
        place.append(box);
      }
      const [, dd, meant, against] = box.children;
      set(dd, text);
      dd.dataset.value = value;
      set(meant, meaning);
      meant.classList.toggle("bad", key === "total_bytes" && held.fits === false);
      const shown = other[i] ? `${other[i][3]} on ${beside.setting.device}` : "";
      set(against, shown);
      put(against, "hidden", !shown);
    });
  };

  // The formula of a kernel in its dims, with its numbers.
  const sumsOf = (kernel, phase) => {
    const formula = data.formulas[`${kernel.op} ${Object.keys(kernel.dims).join(" ")}`]?.[phase] ?? "";
    const numbers = formula.replace(/[a-z_]+/g, (name) => (name in kernel.dims ? count(kernel.dims[name]) : name));
    const signs = (text) => text.replaceAll("*", "×");
    const once = kernel.count > 1 ? `${kernel.count} × ` : "";
    const parts = [];
    if (formula && formula !== "0") parts.push(`${signs(formula)} = ${once}(${signs(numbers)}) = ${si(kernel.flops, "FLOP")}`);
    const rest = kernel.bytes - kernel.weight_bytes - kernel.kv_bytes;
    const bytes = [["weights", kernel.weight_bytes], ["KV", kernel.kv_bytes], ["rest", rest]].filter(([, n]) => n > 0);
    parts.push(`${bytes.map(([role, n]) => `${role} ${si(n, "B")}`).join(" + ")} = ${si(kernel.bytes, "B")}`);
    const times = [["compute", kernel.compute_seconds], ["memory", kernel.memory_seconds], ["link", kernel.link_seconds]].filter(([, t]) => t > 0);
    parts.push(`${once}max(${times.map(([name, t]) => `${name} ${si(t, "s")}`).join(", ")}) = ${si(kernel.bound_seconds, "s")}`);
    return parts.join("\n");
  };

  // The rows of a table: cells of text and class each.
  const fill = (body, rows) => {
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((cells, i) => {
      const row = body.rows[i] ?? body.insertRow();
      while (row.cells.length > cells.length) row.deleteCell(-1);
      cells.forEach(([text, kind], j) => {
        const cell = row.cells[j] ?? row.insertCell();
        put(cell, "className", kind);
        // A sum has a block of its own, which a phone keeps in view while the table moves.
        if (kind === "sum" && !cell.firstElementChild) cell.replaceChildren(make("div"));
        set(kind === "sum" ? cell.firstElementChild : cell, text);
        if (kind === "sum") cell.written = null;
      });
    });
  };
  const kernels = (answer) => {
    const { kernels, total, setting } = answer, derated = setting.times === "derated";
    const [flopSize, flopUnit] = scale(total.flops, "FLOP"), [byteSize, byteUnit] = scale(total.bytes, "B");
    const [timeSize, timeUnit] = scale(total.seconds, "s");
    const columnOf = (field, size) => column([...kernels.map((each) => each[field]), total[field]], size, 5);
    const flops = columnOf("flops", flopSize), bytes = columnOf("bytes", byteSize);
    const bounds = columnOf("bound_seconds", timeSize), times = columnOf("seconds", timeSize);
    const heads = [["kernel", "name"], ["calls", ""], [flopUnit, ""], [byteUnit, ""], ["FLOP/byte", ""], ["bound by", "text"],
      [`bound ${timeUnit}`, ""], ...(derated ? [[`derated ${timeUnit}`, ""]] : []), ["share", ""]];
    const head = $("kernels").tHead, titles = JSON.stringify(heads);
    if (head.dataset.titles !== titles) {
      head.dataset.titles = titles;
      const row = make("tr");
      for (const [title, kind] of heads) row.append(make("th", title, { scope: "col", class: kind ? "text" : "" }));
      head.replaceChildren(row);
    }
    const line = (each, i, name) => [[name, "text name"], [each.count === undefined ? "" : count(each.count), ""], [flops[i], ""], [bytes[i], ""],
      [intensity(each.flops / each.bytes), ""], [each.bound, "text"], [bounds[i], ""], ...(derated ? [[times[i], ""]] : []),
      [share(each.seconds / total.seconds), ""]];
    const most = kernels.reduce((best, each, i) => (each.seconds > kernels[best].seconds ? i : best), 0);
    const rows = kernels.flatMap((each, i) => {
      const own = [line(each, i, each.name), i === most ? "strong" : ""];
      return setting.arithmetic ? [own, [[[sumsOf(each, setting.phase), "sum"]], "sums"]] : [own];
    });
    rows.push([line(total, kernels.length, "the pass"), "total"]);
    fill($("kernels").tBodies[0], rows.map(([cells]) => cells));
    [...$("kernels").tBodies[0].rows].forEach((row, i) => {
      const kind = rows[i][1];
      put(row, "className", kind);
      put(row.cells[0], "colSpan", kind === "sums" ? heads.length : 1);
    });
  };

  const memory = (answer, held) => {
    const parts = [["weights", held.weight_bytes, "weights"], ["kv", held.kv_bytes, "KV cache"], ["activations", held.activation_bytes, "activations"]];
    const whole = Math.max(held.capacity_bytes ?? 0, held.total_bytes);
    const bar = $("memory-bar");
    parts.forEach(([kind, bytes], i) => {
      const piece = bar.querySelectorAll("i")[i] ?? bar.appendChild(make("i", undefined, { class: kind }));
      piece.style.width = `${(100 * bytes) / whole}%`;
    });
    // Where the device ends, if what is held goes past it.
    const end = bar.querySelector("b") ?? bar.appendChild(make("b"));
    put(end, "hidden", held.fits !== false);
    end.style.left = `${(100 * (held.capacity_bytes ?? 0)) / whole}%`;
    const [fits, largest] = engine.fitTexts(answer, held);
    say(bar, "aria-label", `${parts.map(([, bytes, name]) => `${name} ${gib(bytes)}`).join(", ")}. ${fits}`);
    const place = $("fits");
    if (!place.children.length) {
      for (const [kind] of parts) { const span = make("span"); span.append(make("i", undefined, { class: `key ${kind}` }), document.createTextNode("")); place.append(span); }
      place.append(make("span", ""));
    }
    parts.forEach(([, bytes, name], i) => { place.children[i].lastChild.data = `${name} ${gib(bytes)}`; });
    set(place.children[3], fits);
    put(place.children[3], "className", held.fits === false ? "bad" : "");
    set($("largest"), largest ?? "");
  };

  return { readouts, kernels, memory, fill };
};
