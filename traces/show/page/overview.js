// The whole iteration in a strip: how much of all ranks computes when, and which part is zoomed to.
"use strict";
(() => {
  const HEIGHT = 44, COMPUTING = 3; // Classes below are computation.

  class Overview {
    constructor(state) {
      this.state = state;
      this.root = d3.select("#overview");
      this.canvas = this.root.append("canvas").node();
      this.svg = this.root.append("svg").attr("height", HEIGHT);
      this.brush = d3.brushX().on("brush end", () => {
        if (this.marking || !d3.event.sourceEvent) return; // Moved by us.
        const [from, to] = d3.event.selection || [Twinstep.GUTTER, this.width];
        if (to > from) state.showTimes(this.x.invert(from), this.x.invert(to));
      });
      this.handle = this.svg.append("g");
    }

    get x() { return d3.scaleLinear([0, this.state.longest], [Twinstep.GUTTER, this.width]); }

    draw() {
      this.width = this.state.panels[0].width;
      const context = Twinstep.sizeCanvas(this.canvas, this.width, HEIGHT);
      const trace = this.state.page.traces[0];
      const { categories, of: [categoryOf] } = this.state.colouring;
      const columns = Math.max(1, Math.floor(this.width - Twinstep.GUTTER));
      const time = this.state.longest / columns;
      const busy = categories.map(() => new Float64Array(columns));
      const computes = trace.timeClass.some((timeClass) => timeClass < COMPUTING);
      for (let i = 0; i < trace.events; ++i) {
        if (computes && trace.timeClass[i] >= COMPUTING) continue;
        const column = busy[categoryOf[i]];
        for (let at = Math.floor(trace.start[i] / time); at < columns && at * time < trace.end[i]; ++at) {
          column[at] += Math.min(trace.end[i], (at + 1) * time) - Math.max(trace.start[i], at * time);
        }
      }
      const rows = computes ? trace.ranks.length : trace.rows.length;
      // A rank may compute on its GPU and its host at once: more than all of them is drawn as all.
      const most = time * Math.max(1, rows);
      const scale = d3.range(columns).map((at) =>
        (HEIGHT - 4) / Math.max(most, d3.sum(busy, (column) => column[at])));
      const base = new Float64Array(columns).fill(HEIGHT - 2);
      categories.forEach(({ colour }, category) => {
        context.fillStyle = colour;
        for (let at = 0; at < columns; ++at) {
          const height = busy[category][at] * scale[at];
          if (height === 0) continue;
          base[at] -= height;
          context.fillRect(Twinstep.GUTTER + at, base[at], 1, height);
        }
      });
      context.fillStyle = "#57606a";
      context.textAlign = "left";
      context.fillText(computes ? "ranks computing" : "lanes busy", 6, HEIGHT / 2 - 3);
      context.fillText("drag to zoom", 6, HEIGHT / 2 + 11);
      this.svg.attr("width", this.width);
      this.brush.extent([[Twinstep.GUTTER, 1], [this.width, HEIGHT - 1]]);
      this.handle.call(this.brush);
      this.mark();
    }

    mark() {
      const x = this.state.panels[0].x;
      const [from, to] = x.domain().map(this.x);
      const whole = from <= Twinstep.GUTTER + .5 && to >= this.width - .5;
      this.marking = true;
      this.handle.call(this.brush.move, whole ? null : [from, Math.max(to, from + 1)]);
      this.marking = false;
    }
  }

  Twinstep.Overview = Overview;
})();
