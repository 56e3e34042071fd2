// The state of the page, and what changes it.
"use strict";
(() => {
  const SHORTEST = 2e6; // Picoseconds across the screen when zoomed in all the way.

  // "0,4..7" to a predicate of global ranks; everything where it says nothing.
  function parseRanks(text) {
    const parts = text.split(/[ ,;]+/).map((part) => /^(\d+)(?:(?:-|\.\.)(\d+))?$/.exec(part)).filter(Boolean);
    if (parts.length === 0) return () => true;
    return (rank) => parts.some(([, from, to]) => rank >= Number(from) && rank <= Number(to || from));
  }

  class State {
    constructor(page) {
      this.page = page;
      this.longest = Math.max(1, d3.max(page.traces, ({ iteration, end }) => Math.max(iteration, d3.max(end) || 0)));
      this.transform = d3.zoomIdentity;
      this.times = [0, this.longest]; // In sight.
      this.view = "lanes";
      this.critical = true;
      this.selected = null;
      this.pointerTime = null;
      this.acceptsRank = parseRanks(page.ranks);
      this.colour("class");
      this.panels = page.traces.map((trace, index) => new Twinstep.Panel(this, index));
      this.overview = new Twinstep.Overview(this);
      this.zoom = d3.zoom()
        .filter(() => !d3.event.button && !(d3.event.type === "wheel" && d3.event.shiftKey))
        .on("zoom", () => this.zoomed());
      this.panels.forEach(({ lanes }) => lanes.call(this.zoom).on("wheel.scroll", function () {
        if (d3.event.shiftKey) this.scrollTop += d3.event.deltaY || d3.event.deltaX;
      }));
      this.resize();
    }

    colour(mode) {
      this.colouring = Twinstep.colouring(this.page, mode);
    }

    showsRank(trace, rank) {
      return this.acceptsRank(trace.ranks[rank].rank);
    }

    zoomed() {
      const { transform, sourceEvent } = d3.event;
      // Panels are linked: what moves one moves all.
      const panel = this.panels.find(({ lanes }) => sourceEvent && lanes.node().contains(sourceEvent.target));
      if (panel && sourceEvent.type === "mousemove") panel.lanes.node().scrollTop -= sourceEvent.movementY;
      this.setTransform(transform);
    }

    setTransform(transform) {
      this.transform = transform;
      this.times = this.panels[0].x.domain();
      this.panels.forEach(({ lanes }) => lanes.property("__zoom", transform));
      this.overview.mark();
      this.redraw();
    }

    // Zooms to a window of time.
    showTimes(from, to) {
      const width = this.panels[0].width - Twinstep.GUTTER;
      const k = Math.min(this.zoom.scaleExtent()[1], Math.max(1, this.longest / (to - from)));
      const x = -k * (Twinstep.GUTTER + from / this.longest * width) + Twinstep.GUTTER;
      this.setTransform(d3.zoomIdentity.translate(x, 0).scale(k));
    }

    zoomBy(factor) {
      const [from, to] = this.panels[0].x.domain();
      const middle = this.pointerTime === null ? (from + to) / 2 : this.pointerTime;
      const a = Math.max(0, middle - (middle - from) / factor);
      this.showTimes(a, Math.min(this.longest, a + (to - from) / factor));
    }

    panBy(share) {
      const [from, to] = this.panels[0].x.domain();
      const shift = Math.max(-from, Math.min(this.longest - to, share * (to - from)));
      this.showTimes(from + shift, to + shift);
    }

    select(selected, reveal = false) {
      const opens = (this.selected === null) !== (selected === null);
      this.selected = selected;
      Twinstep.showDetails(this);
      if (opens) this.resize(); // The lanes make room.
      if (selected && reveal) {
        const trace = this.page.traces[selected.index];
        const [from, to] = this.panels[0].x.domain();
        const start = trace.start[selected.event], end = trace.end[selected.event];
        if (start < from || end > to) {
          const half = Math.max((to - from) / 2, end - start);
          const middle = (start + end) / 2;
          this.showTimes(Math.max(0, middle - half), Math.min(this.longest, middle + half));
        }
        this.panels[selected.index].reveal(selected.event);
      }
      this.redraw();
    }

    arrange() {
      this.panels.forEach((panel) => panel.show());
      showPathBox(this);
      Twinstep.drawLegend(this);
      this.redraw();
    }

    resize() {
      const width = this.panels[0].width;
      this.zoom.extent([[Twinstep.GUTTER, 0], [width, 1]])
        .translateExtent([[Twinstep.GUTTER, -Infinity], [width, Infinity]])
        .scaleExtent([1, Math.max(1, this.longest / SHORTEST)]);
      this.overview.draw();
      this.showTimes(...this.times); // Another width shows the same.
      this.draw();
    }

    redraw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => this.draw());
    }

    draw() {
      this.waiting = false;
      const start = performance.now();
      this.panels.forEach((panel) => panel.draw());
      this.drawMilliseconds = performance.now() - start;
    }
  }

  // A box that would change nothing is not there: the schedule draws no path.
  function showPathBox({ page, view }) {
    const draws = view === "lanes" && page.traces.some(({ graph }) => graph);
    d3.select(document.getElementById("critical").parentNode).attr("hidden", draws ? null : "");
  }

  Twinstep.drawLegend = (state) => {
    const entries = state.view === "schedule" ? Twinstep.scheduleLegend()
      : Twinstep.usedCategories(state.colouring);
    const hasPath = state.view === "lanes" && state.critical && d3.sum(state.page.traces, ({ critical }) => critical) > 0;
    const mark = ({ name, colour }) => `<span><i style="background:${colour}"></i>${Twinstep.escape(name)}</span>`;
    d3.select("#legend").html(entries.map(mark).join("") +
      (hasPath ? "<span><i class=\"critical\"></i>critical path</span>" : ""));
  };

  function describePage(page) {
    const [trace] = page.traces;
    const name = page.traces.length === 1 || page.traces[0].name === page.traces[1].name ? trace.name
      : page.traces.map((one) => one.name).join(" and ");
    d3.select("#title").text(name || "Twinstep timeline");
    document.title = `${name || "timeline"} - Twinstep`;
    // Where the title says nothing of a trace, its file does.
    const facts = page.traces.map((one, index) =>
      `${Twinstep.escape(Twinstep.title(page, index) === one.origin || !one.file
        ? Twinstep.title(page, index) : `${Twinstep.title(page, index)} ${one.file}`)} <b>${Twinstep.time(one.iteration)}</b>`);
    if (page.traces.length === 2 && page.traces[1].iteration > 0) {
      facts.push(`difference <b>${Twinstep.percent(page.traces[0].iteration / page.traces[1].iteration - 1)}</b>`);
    }
    const count = (number, noun) => `${d3.format(",")(number)} ${noun}${number === 1 ? "" : "s"}`;
    facts.push(`${count(trace.events, "task")} of ${count(trace.ranks.length, "rank")}`);
    d3.select("#facts").html(facts.join(" &middot; "));
    const notes = [];
    if (page.note) notes.push(`Tasks are not paired: ${page.note}.`);
    const hasGraph = page.traces.some(({ graph }) => graph);
    if (!hasGraph) notes.push("No critical path: the trace does not know its graph.");
    d3.select("#note").text(notes.join(" "));
  }

  function listen(state) {
    const on = (id, event, run) => d3.select(`#${id}`).on(event, () => run(d3.event.target));
    on("view", "change", ({ value }) => {
      state.view = value;
      state.arrange();
    });
    on("colour-by", "change", ({ value }) => {
      state.colour(value);
      state.arrange();
      state.overview.draw();
    });
    on("ranks", "input", ({ value }) => {
      state.acceptsRank = parseRanks(value);
      state.arrange();
    });
    on("critical", "change", ({ checked }) => {
      state.critical = checked;
      state.arrange();
    });
    on("in", "click", () => state.zoomBy(2));
    on("out", "click", () => state.zoomBy(.5));
    on("whole", "click", () => state.showTimes(0, state.longest));
    on("print", "click", () => window.print());
    const keys = {
      w: () => state.zoomBy(1.5), s: () => state.zoomBy(1 / 1.5), a: () => state.panBy(-.25), d: () => state.panBy(.25),
      ArrowLeft: () => state.panBy(-.25), ArrowRight: () => state.panBy(.25),
      0: () => state.showTimes(0, state.longest), Escape: () => state.select(null),
    };
    d3.select(window).on("keydown", () => {
      const { key, target, ctrlKey, metaKey } = d3.event;
      if (ctrlKey || metaKey || ["INPUT", "SELECT"].includes(target.tagName) || !(key in keys)) return;
      keys[key]();
    }).on("resize", () => state.resize())
      .on("beforeprint", () => printLayout(state, true)).on("afterprint", () => printLayout(state, false));
  }

  // On paper nothing scrolls: all rows are drawn, at the width of a page.
  function printLayout(state, printing) {
    Twinstep.printing = printing;
    d3.select("#panels").style("width", printing ? "1040px" : null);
    state.panels.forEach(({ lanes, view }) => {
      lanes.style("height", printing ? `${Math.min(view.height, 15000) + 2}px` : null);
      if (printing) lanes.node().scrollTop = 0;
    });
    state.resize();
  }

  async function start() {
    const page = await Twinstep.load();
    describePage(page);
    const state = new State(page);
    showPathBox(state);
    Twinstep.drawLegend(state);
    d3.select("body").classed("with-report", !d3.select("#report").empty());
    d3.select("#ranks").property("value", page.ranks);
    state.resize(); // The legend took its place.
    if (page.from > 0 || page.to > 0) state.showTimes(page.from, page.to || state.longest);
    listen(state);
    Twinstep.state = state;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      Twinstep.readyMilliseconds = performance.now();
      document.body.dataset.ready = "true";
    }));
  }

  start().catch((error) => {
    d3.select("#note").text(`This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`);
    throw error;
  });
})();
