// The traces of the page: what traces/show/page_data.h has packed, as typed arrays.
"use strict";
const Twinstep = {};

(() => {
  async function inflate(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; ++i) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // LEB128, in doubles: picoseconds need more than 32 bits and less than 53.
  class Varints {
    constructor(bytes) {
      this.bytes = bytes;
      this.at = 0;
    }
    next() {
      let value = 0, scale = 1, byte;
      do {
        byte = this.bytes[this.at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      return value;
    }
    nextSigned() {
      const value = this.next();
      return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    }
    column(Type, count) {
      const column = new Type(count);
      for (let i = 0; i < count; ++i) column[i] = this.next();
      return column;
    }
    deltas(Type, count) {
      const column = new Type(count);
      for (let i = 0, last = 0; i < count; ++i) column[i] = last += this.nextSigned();
      return column;
    }
  }

  function unpack(meta, bytes) {
    const trace = Object.assign({}, meta);
    const input = new Varints(bytes);
    const n = meta.events;
    trace.start = new Float64Array(n);
    trace.end = new Float64Array(n);
    trace.ready = new Float64Array(n);
    trace.rowOf = new Uint32Array(n);
    let first = 0;
    trace.rows = meta.rows.map(([rank, lane, count], index) => {
      const row = { rank, lane, first, last: first + count };
      trace.rowOf.fill(index, first, first + count);
      first += count;
      return row;
    });
    for (const row of trace.rows) {
      for (let i = row.first, time = 0; i < row.last; ++i) {
        trace.start[i] = time += input.nextSigned();
      }
    }
    for (let i = 0; i < n; ++i) trace.end[i] = trace.start[i] + input.next();
    for (let i = 0; i < n; ++i) trace.ready[i] = trace.start[i] - input.nextSigned();
    trace.task = input.deltas(Uint32Array, n);
    trace.kind = input.column(Uint32Array, n);
    trace.phase = input.column(Uint32Array, n);
    trace.op = input.column(Uint32Array, n);
    trace.timeClass = input.column(Uint8Array, n);
    trace.shape = input.column(Uint32Array, n);
    for (const tag of ["microBatch", "stage", "block", "chunk"]) {
      trace[tag] = input.column(Uint32Array, n);
    }
    trace.bytes = input.column(Float64Array, n);
    trace.criticalEvents = input.deltas(Uint32Array, meta.critical);
    trace.onCriticalPath = new Uint8Array(n);
    for (const event of trace.criticalEvents) trace.onCriticalPath[event] = 1;
    if (meta.graph) {
      trace.dependencyRow = new Uint32Array(n + 1);
      for (let i = 0; i < n; ++i) trace.dependencyRow[i + 1] = trace.dependencyRow[i] + input.next();
      trace.dependency = new Uint32Array(trace.dependencyRow[n]);
      for (let i = 0; i < n; ++i) {
        for (let j = trace.dependencyRow[i]; j < trace.dependencyRow[i + 1]; ++j) {
          trace.dependency[j] = i + input.nextSigned();
        }
      }
      trace.rendezvous = input.deltas(Uint32Array, n);
    }
    trace.memory = meta.memory.map(({ rank, pool, points }) => ({
      rank, pool,
      time: input.deltas(Float64Array, points),
      bytes: input.deltas(Float64Array, points),
    }));
    return trace;
  }

  // By event of `from`, the event of the same task in `to`.
  function partners(from, to) {
    let largest = 0;
    for (const task of to.task) largest = Math.max(largest, task);
    const eventOf = new Uint32Array(largest + 1);
    to.task.forEach((task, event) => { eventOf[task] = event; });
    return from.task.map((task) => eventOf[task]);
  }

  Twinstep.load = async () => {
    const page = JSON.parse(document.getElementById("page-data").textContent);
    page.traces = await Promise.all(page.traces.map(async (meta, index) =>
      unpack(meta, await inflate(document.getElementById(`trace-${index}`).textContent.trim()))));
    if (page.sameGraph) {
      const [a, b] = page.traces;
      a.partner = partners(a, b);
      b.partner = partners(b, a);
    }
    return page;
  };

  // Tasks that an event waited for, and that waited for it; events. Lane order comes first.
  Twinstep.predecessors = (trace, event) => {
    const found = [];
    if (event > trace.rows[trace.rowOf[event]].first) found.push(event - 1);
    if (!trace.graph) return found;
    for (let j = trace.dependencyRow[event]; j < trace.dependencyRow[event + 1]; ++j) {
      found.push(trace.dependency[j]);
    }
    return found;
  };

  // Edges turned round, made when first asked for.
  function successorRows(trace) {
    if (trace.successorRow) return;
    const row = new Uint32Array(trace.events + 1);
    for (const from of trace.dependency) ++row[from + 1];
    for (let i = 0; i < trace.events; ++i) row[i + 1] += row[i];
    const next = row.slice();
    trace.successor = new Uint32Array(trace.dependency.length);
    for (let to = 0; to < trace.events; ++to) {
      for (let j = trace.dependencyRow[to]; j < trace.dependencyRow[to + 1]; ++j) {
        trace.successor[next[trace.dependency[j]]++] = to;
      }
    }
    trace.successorRow = row;
  }

  Twinstep.successors = (trace, event) => {
    const found = [];
    if (event + 1 < trace.rows[trace.rowOf[event]].last) found.push(event + 1);
    if (!trace.graph) return found;
    successorRows(trace);
    for (let j = trace.successorRow[event]; j < trace.successorRow[event + 1]; ++j) {
      found.push(trace.successor[j]);
    }
    return found;
  };

  // Others that start together with an event.
  Twinstep.companions = (trace, event) => {
    const found = [];
    if (!trace.graph || trace.rendezvous[event] === 0) return found;
    trace.rendezvous.forEach((number, other) => {
      if (number === trace.rendezvous[event] && other !== event) found.push(other);
    });
    return found;
  };

  // First event of a row that ends after a time. The events of a row do not overlap.
  Twinstep.firstAfter = (trace, row, time) => {
    let low = row.first, high = row.last;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (trace.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  };

  // Tags and shapes are stored plus one, so that 0 is none.
  Twinstep.tag = (value) => value === 0 ? null : value - 1;
})();
