// Numbers and names as a person reads them.
"use strict";
(() => {
  const digits = d3.format(",.4r");

  const unitOf = (ps) => ps >= 1e12 ? ["s", 1e12] : ps >= 1e9 ? ["ms", 1e9]
    : ps >= 1e6 ? ["us", 1e6] : ["ns", 1e3];

  Twinstep.font = (style) => `${style} system-ui, 'DejaVu Sans', sans-serif`;

  // Picoseconds in a unit that fits `scale` (default: the value itself).
  Twinstep.time = (ps, scale = Math.abs(ps)) => {
    if (ps === 0) return "0";
    const [unit, size] = unitOf(scale);
    return `${digits(ps / size).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")} ${unit}`;
  };

  // Labels of an axis whose neighbours are `step` apart.
  Twinstep.axisTime = (ps, step, largest) => {
    const [unit, size] = unitOf(largest);
    const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / size) + 1e-9)));
    return `${(ps / size).toFixed(decimals)} ${unit}`;
  };

  Twinstep.size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (bytes >= 1024 && unit + 1 < units.length) {
      bytes /= 1024;
      ++unit;
    }
    return `${unit === 0 ? bytes : bytes.toFixed(bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2)} ${units[unit]}`;
  };

  Twinstep.percent = (fraction) => `${fraction >= 0 ? "+" : "\u2212"}${Math.abs(100 * fraction).toFixed(1)} %`;

  Twinstep.rankName = (trace, rank) => {
    const { rank: number, ranks } = trace.ranks[rank];
    return ranks > 1 ? `rank ${number} \u00d7${ranks}` : `rank ${number}`;
  };

  Twinstep.taskName = (trace, event) => {
    const row = trace.rows[trace.rowOf[event]];
    const micro = Twinstep.tag(trace.microBatch[event]);
    const block = Twinstep.tag(trace.block[event]);
    return `r${trace.ranks[row.rank].rank} ${trace.operators[trace.op[event]]}` +
      (micro === null ? "" : ` mb${micro}`) + (block === null ? "" : ` block${block}`);
  };

  // What is known about an event as [name, text].
  Twinstep.fields = (page, trace, event) => {
    const row = trace.rows[trace.rowOf[event]];
    const place = trace.ranks[row.rank];
    const fields = [
      ["rank", `${place.rank} (tp ${place.tp}, cp ${place.cp}, dp ${place.dp}, pp ${place.pp})` +
        (place.ranks > 1 ? `, for ${place.ranks}` : "")],
      ["lane", trace.lanes[row.lane]],
      ["kind", trace.kinds[trace.kind[event]]],
      ["phase", trace.phases[trace.phase[event]]],
    ];
    const tags = [["micro-batch", "microBatch"], ["stage", "stage"], ["block", "block"], ["chunk", "chunk"]]
      .map(([name, column]) => [name, Twinstep.tag(trace[column][event])])
      .filter(([, value]) => value !== null);
    if (tags.length > 0) fields.push(["part", tags.map(([name, value]) => `${name} ${value}`).join(", ")]);
    if (trace.shape[event] > 0) fields.push(["shape", trace.shapes[trace.shape[event] - 1]]);
    const duration = trace.end[event] - trace.start[event];
    if (trace.bytes[event] > 0) {
      const rate = duration > 0 ? `, ${(trace.bytes[event] / duration * 1e3).toPrecision(3)} GB/s` : "";
      fields.push(["bytes", `${Twinstep.size(trace.bytes[event])}${rate}`]);
    }
    fields.push(["start", Twinstep.time(trace.start[event], trace.iteration)]);
    fields.push(["duration", Twinstep.time(duration)]);
    const waited = trace.start[event] - trace.ready[event];
    const forPartners = trace.graph && trace.rendezvous[event] > 0 ? " for partners" : "";
    if (waited > 0) fields.push(["waited", Twinstep.time(waited) + forPartners]);
    if (trace.partner) {
      const [a, b] = page.traces;
      const first = trace === a ? event : trace.partner[event];
      const second = trace === b ? event : trace.partner[event];
      const times = [a.end[first] - a.start[first], b.end[second] - b.start[second]];
      fields.push([Twinstep.title(page, 0), Twinstep.time(times[0])]);
      fields.push([Twinstep.title(page, 1), Twinstep.time(times[1])]);
      if (times[1] > 0) fields.push(["difference", Twinstep.percent(times[0] / times[1] - 1)]);
    }
    if (trace.onCriticalPath[event]) fields.push(["critical path", "yes"]);
    return fields;
  };

  // "simulated" and "executed"; "A" and "B" where both are of one origin.
  Twinstep.title = (page, index) => {
    const origins = page.traces.map((trace) => trace.origin);
    return origins.length === 2 && origins[0] === origins[1] ? "AB"[index] : origins[index];
  };

  Twinstep.escape = (text) => String(text).replace(/[&<>"]/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" })[c]);

  Twinstep.fieldTable = (fields) => `<table class="fields">${fields.map(([name, text]) =>
    `<tr><td>${Twinstep.escape(name)}</td><td>${Twinstep.escape(text)}</td></tr>`).join("")}</table>`;
})();
