// One trace: its axis of time, its lanes or schedule, its memory.
"use strict";
(() => {
  const GUTTER = 164, AXIS = 20;

  // Sharp on any screen; cleared, and in units of CSS pixels.
  Twinstep.sizeCanvas = (canvas, width, height) => {
    const ratio = Twinstep.printing ? 2 : window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = Twinstep.font("11px");
    return context;
  };

  Twinstep.drawCursor = (context, x, height, left) => {
    if (x < left) return;
    context.fillStyle = "rgba(31, 35, 40, .45)";
    context.fillRect(Math.round(x), 0, 1, height);
  };

  class Panel {
    constructor(state, index) {
      this.state = state;
      this.index = index;
      this.trace = state.page.traces[index];
      const root = this.root = d3.select("#panels").append("section").attr("class", "panel");
      if (state.page.traces.length > 1) {
        const title = root.append("h2").text(`${Twinstep.title(state.page, index)} `);
        const { file } = this.trace;
        title.append("span").text(`${file && !this.trace.name.startsWith(file) ? `${file}, ` : ""}${this.trace.name}: ${Twinstep.time(this.trace.iteration)}`);
      }
      this.axis = root.append("svg").attr("class", "axis").attr("height", AXIS);
      this.lanes = root.append("div").attr("class", "lanes").attr("tabindex", 0);
      this.canvas = this.lanes.append("div").attr("class", "view").append("canvas").node();
      this.space = this.lanes.append("div");
      this.memory = this.trace.memory.length > 0 ? new Twinstep.MemoryView(state, index, root) : null;
      this.lanes.on("scroll", () => state.redraw());
      this.lanes.on("mousemove", () => this.point(d3.mouse(this.lanes.node())));
      this.lanes.on("mouseleave", () => this.leave());
      this.lanes.on("click", () => this.click(d3.mouse(this.lanes.node())));
      this.show();
    }

    show() {
      const View = this.state.view === "schedule" ? Twinstep.ScheduleView : Twinstep.LanesView;
      this.view = new View(this.state, this.index);
      this.space.style("height", `${this.view.height}px`);
      // Who has more rows gets more room.
      const besides = 58 + (this.memory ? 100 : 0);
      this.root.style("flex-basis", `${this.view.height + besides}px`)
        .style("min-height", `${Math.min(this.view.height, 60) + besides}px`);
    }

    // A page that is not laid out yet has no room at all.
    get width() { return Math.max(GUTTER + 1, this.lanes.node().clientWidth); }

    // Times to pixels, as zoomed.
    get x() {
      const whole = d3.scaleLinear([0, this.state.longest], [GUTTER, this.width]);
      return this.state.transform.rescaleX(whole);
    }

    window() {
      const node = this.lanes.node();
      const top = node.scrollTop;
      return { x: this.x, left: GUTTER, right: this.width, gutter: GUTTER, top,
        bottom: top + Math.max(node.clientHeight, 1) };
    }

    draw() {
      const view = this.window();
      const height = view.bottom - view.top;
      const context = Twinstep.sizeCanvas(this.canvas, view.right, height);
      this.view.draw(context, view);
      context.fillStyle = "#8c959f";
      const end = view.x(this.trace.iteration);
      if (end >= GUTTER && end <= view.right) context.fillRect(end, 0, 1, height);
      if (this.state.pointerTime !== null) {
        Twinstep.drawCursor(context, view.x(this.state.pointerTime), height, GUTTER);
      }
      this.drawAxis(view);
      if (this.memory) this.memory.draw(view);
    }

    drawAxis({ x, right }) {
      const ticks = x.ticks(Math.max(2, Math.floor((right - GUTTER) / 110)));
      const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
      const largest = Math.max(...x.domain());
      this.axis.attr("width", right + 2).html("");
      this.axis.append("g").attr("transform", `translate(0,${AXIS - 1})`).call(
        d3.axisTop(x).tickValues(ticks.filter((t) => x(t) < right - 22)).tickSizeOuter(0).tickFormat((t) => Twinstep.axisTime(t, step, largest)));
    }

    find([left, y]) {
      const x = this.x;
      if (left < GUTTER) return null;
      const time = x.invert(left);
      // Positions are in the content that scrolls.
      return this.view.at(time, y + this.lanes.node().scrollTop, Math.abs(x.invert(left + 2) - time));
    }

    point(place) {
      this.state.pointerTime = place[0] >= GUTTER ? this.x.invert(place[0]) : null;
      const found = this.find(place);
      const tooltip = d3.select("#tooltip").attr("hidden", found ? null : "");
      if (found) {
        tooltip.html(this.view.describe(found));
        const box = tooltip.node().getBoundingClientRect();
        const { clientX, clientY } = d3.event;
        const toLeft = clientX + 16 + box.width > window.innerWidth;
        const above = clientY + 16 + box.height > window.innerHeight;
        tooltip.style("left", `${Math.max(4, toLeft ? clientX - 16 - box.width : clientX + 16)}px`)
          .style("top", `${Math.max(4, above ? clientY - 16 - box.height : clientY + 16)}px`);
      }
      this.state.redraw();
    }

    leave() {
      this.state.pointerTime = null;
      d3.select("#tooltip").attr("hidden", "");
      this.state.redraw();
    }

    click(place) {
      const found = this.find(place);
      const event = found && found.event !== undefined ? found.event : null;
      this.state.select(event === null ? null : { index: this.index, event });
    }

    // Scrolls a row into sight.
    reveal(event) {
      const y = this.view.placeOf && this.view.placeOf.get(this.trace.rowOf[event]);
      const node = this.lanes.node();
      if (y !== undefined && (y < node.scrollTop || y + 20 > node.scrollTop + node.clientHeight)) {
        node.scrollTop = y - node.clientHeight / 2;
      }
    }
  }

  Twinstep.Panel = Panel;
  Twinstep.GUTTER = GUTTER;
})();
