// Live bytes of one rank over the time that the lanes show.
"use strict";
(() => {
  const PAD = 8;

  class MemoryView {
    constructor(state, index, parent) {
      this.state = state;
      this.trace = state.page.traces[index];
      this.root = parent.append("div").attr("class", "memory");
      this.canvas = this.root.append("canvas").node();
      const ranks = [...new Set(this.trace.memory.map(({ rank }) => rank))];
      // The rank with the highest GPU peak is the one that memory is short on.
      const peak = (rank) => d3.max(this.trace.memory.filter((curve) =>
        curve.rank === rank && curve.pool === "gpu"), ({ bytes }) => d3.max(bytes)) || 0;
      const fullest = ranks.reduce((best, rank) => peak(rank) > peak(best) ? rank : best, ranks[0]);
      const choice = this.root.append("div").attr("class", "choice");
      this.rank = fullest;
      choice.append("span").text("live memory of ")
        .attr("title", "Bytes of the buffers that are alive. The report's peak is what the arena needs: " +
          "alignment and what lies unused between buffers besides.");
      choice.append("select").attr("aria-label", "memory of rank")
        .on("change", () => {
          this.rank = Number(d3.event.target.value);
          state.redraw();
        })
        .selectAll("option").data(ranks).join("option")
        .attr("value", (rank) => rank).property("selected", (rank) => rank === fullest)
        .text((rank) => Twinstep.rankName(this.trace, rank));
      this.pools = choice.append("div");
    }

    draw({ x, left, right, gutter }) {
      const curves = this.trace.memory.filter(({ rank }) => rank === this.rank);
      this.pools.selectAll("div").data(curves).join("div").html(({ pool, bytes }) =>
        `<i style="background:${Twinstep.POOL_COLOURS[pool]}"></i>${pool.replace("_host", "")} ` +
        `${Twinstep.size(d3.max(bytes))}`);
      const height = this.root.node().clientHeight;
      const context = Twinstep.sizeCanvas(this.canvas, right, height);
      const most = d3.max(curves, ({ bytes }) => d3.max(bytes)) || 1;
      const y = d3.scaleLinear([0, most], [height - PAD, PAD]);
      const unit = 1024 ** Math.min(4, Math.floor(Math.log(most) / Math.log(1024)));
      context.font = Twinstep.font("10px");
      const ticks = d3.ticks(0, most / unit, 3);
      for (const tick of ticks) {
        context.fillStyle = "#e3e7eb";
        context.fillRect(gutter, Math.round(y(tick * unit)), right - gutter, 1);
      }
      context.save();
      context.beginPath();
      context.rect(gutter, 0, right - gutter, height);
      context.clip();
      for (const { pool, time, bytes } of curves) {
        const first = Math.max(0, d3.bisectRight(time, x.invert(left)) - 1);
        const last = Math.min(time.length, d3.bisectLeft(time, x.invert(right)) + 1);
        const points = d3.range(first, last).map((i) => [x(time[i]), y(bytes[i])]);
        if (last > 0 && last === time.length) points.push([x(this.trace.iteration), y(bytes[last - 1])]);
        context.beginPath();
        d3.line().curve(d3.curveStepAfter).context(context)(points);
        context.strokeStyle = Twinstep.POOL_COLOURS[pool];
        context.lineWidth = 1.5;
        context.stroke();
      }
      context.restore();
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillStyle = "#57606a";
      for (const tick of ticks.filter((one) => one > 0)) {
        const text = Twinstep.size(tick * unit).replace(/\.0+ /, " ");
        context.fillText(text, gutter - 5, Math.max(y(tick * unit), 6));
      }
      context.fillStyle = "#d0d7de";
      context.fillRect(gutter - 1, 0, 1, height);
      if (this.state.pointerTime !== null) Twinstep.drawCursor(context, x(this.state.pointerTime), height, left);
    }
  }

  Twinstep.MemoryView = MemoryView;
})();
