// The view of a pipeline: a row a rank, on it its forwards and backwards with the number of their
// micro-batch. White is where a rank does not compute.
"use strict";
(() => {
  const ROW = 24, GAP = 3;
  const NEAR = 1e5; // Picoseconds between kernels that are drawn as one stretch of recomputation.
  const LONG_WAIT = 1e-3; // Of the iteration: what is behind it is another step.
  const FORWARD = 0, BACKWARD = 1, OTHER = 2;

  // Adds a stretch of time to those in order, or to the end of the last.
  function extend(stretches, start, end) {
    const open = stretches[stretches.length - 1];
    if (open && start - open[1] < NEAR) open[1] = end;
    else stretches.push([start, end]);
  }

  // Runs of computation of one micro-batch in one stage and direction, by rank; of the rest, runs
  // without a long wait.
  function stepsOf(trace) {
    const steps = trace.ranks.map(() => []);
    trace.rows.forEach((row) => {
      let step = null;
      for (let i = row.first; i < row.last; ++i) {
        const timeClass = trace.timeClass[i];
        if (timeClass > 2) continue; // Only computation, recomputation, the optimizer.
        const phase = trace.phases[trace.phase[i]];
        const micro = Twinstep.tag(trace.microBatch[i]);
        const stage = Twinstep.tag(trace.stage[i]);
        const direction = timeClass === 2 || micro === null ? OTHER
          : phase === "forward" ? FORWARD : BACKWARD;
        const same = step && step.direction === direction &&
          (direction === OTHER ? trace.start[i] - step.end <= LONG_WAIT * trace.iteration
            : step.micro === micro && step.stage === stage);
        if (!same) {
          step = { direction, micro, stage, start: trace.start[i], tasks: 0, busy: 0, work: [],
            recompute: [] };
          steps[row.rank].push(step);
        }
        step.end = trace.end[i];
        step.busy += trace.end[i] - trace.start[i];
        ++step.tasks;
        extend(step.work, trace.start[i], trace.end[i]);
        if (timeClass === 1) extend(step.recompute, trace.start[i], trace.end[i]);
      }
    });
    // A host may update parameters beside a backward, which is drawn over it.
    const isOther = ({ direction }) => direction === OTHER;
    return steps.map((all) => [...all.filter(isOther), ...all.filter((step) => !isOther(step))]);
  }

  class ScheduleView {
    constructor(state, index) {
      this.state = state;
      this.trace = state.page.traces[index];
      if (!this.trace.steps) this.trace.steps = stepsOf(this.trace);
      this.stages = this.trace.steps.map((steps) =>
        [...new Set(steps.filter(({ stage }) => stage !== null).map(({ stage }) => stage))]
          .sort((a, b) => a - b));
      this.arrange();
    }

    arrange() {
      this.lines = [];
      this.trace.steps.forEach((steps, rank) => {
        if (steps.length === 0 || !this.state.showsRank(this.trace, rank)) return;
        this.lines.push({ y: GAP + this.lines.length * (ROW + GAP), rank, steps });
      });
      this.height = GAP + this.lines.length * (ROW + GAP);
    }

    label(step, rank, width) {
      const stages = this.stages[rank];
      const letter = stages.length > 1 && stages.length <= 26
        ? String.fromCharCode(97 + stages.indexOf(step.stage)) : "";
      const full = `${step.micro}${letter}`;
      return [full, `${step.micro}`].find((text) => text.length * 6.2 + 2 <= width) || "";
    }

    // What of a step is in sight, in pixels: stretches of work with a visible wait between them.
    boxes({ work }, { x, left, right }) {
      const boxes = [];
      for (const [start, end] of work) {
        const from = Math.max(left, x(start)), to = Math.min(right, x(end));
        if (to < left || from > right) continue;
        const before = boxes[boxes.length - 1];
        if (before && from - before.to < 1) before.to = to;
        else boxes.push({ from, to });
      }
      return boxes;
    }

    draw(context, { x, top, bottom, left, right, gutter }) {
      for (const { y, rank, steps } of this.lines) {
        if (y + ROW < top || y > bottom) continue;
        const stages = this.stages[rank];
        context.font = Twinstep.font("11px");
        context.textAlign = "center";
        context.textBaseline = "middle";
        for (const step of steps) {
          if (x(step.end) < left || x(step.start) > right) continue;
          const boxes = this.boxes(step, { x, left, right });
          if (boxes.length === 0) continue;
          const backward = step.direction === BACKWARD;
          context.fillStyle = step.direction === OTHER ? Twinstep.STEP_OTHER
            : Twinstep.stepColour(backward, stages.indexOf(step.stage), stages.length);
          for (const { from, to } of boxes) {
            context.fillRect(from, y - top, Math.max(to - from, .5), ROW);
          }
          context.fillStyle = Twinstep.STEP_RECOMPUTE;
          for (const [begin, end] of step.recompute) {
            const at = Math.max(left, x(begin));
            const until = Math.min(right, x(end));
            if (until > at) context.fillRect(at, y - top + ROW - 5, until - at, 5);
          }
          context.strokeStyle = "rgba(31, 35, 40, .55)";
          context.lineWidth = .75;
          for (const { from, to } of boxes) {
            if (to - from > 3) context.strokeRect(from + .4, y - top + .4, to - from - .8, ROW - .8);
          }
          const { from, to } = boxes[d3.scan(boxes, (a, b) => (b.to - b.from) - (a.to - a.from))];
          const width = to - from;
          if (step.direction === OTHER || width < 8) continue;
          context.fillStyle = "#1f2328";
          context.fillText(this.label(step, rank, width), (from + to) / 2, y - top + ROW / 2 - (step.recompute.length ? 1.5 : -.5));
        }
      }
      context.clearRect(0, 0, gutter - 1, bottom - top);
      context.textAlign = "left";
      context.textBaseline = "middle";
      for (const { y, rank } of this.lines) {
        if (y + ROW < top || y > bottom) continue;
        context.fillStyle = "#1f2328";
        context.font = Twinstep.font("600 11px");
        context.fillText(Twinstep.rankName(this.trace, rank), 6, y - top + ROW / 2 + .5);
        context.font = Twinstep.font("11px");
        context.fillStyle = "#57606a";
        context.textAlign = "right";
        context.fillText(`stage ${this.trace.ranks[rank].pp}`, gutter - 6, y - top + ROW / 2 + .5);
        context.textAlign = "left";
      }
      context.fillStyle = "#d0d7de";
      context.fillRect(gutter - 1, 0, 1, bottom - top);
    }

    at(time, y, slack) {
      const line = this.lines.find((one) => y >= one.y && y < one.y + ROW);
      const step = line && line.steps.filter(({ start, end }) => start - slack <= time && time <= end + slack).pop();
      return step ? { step, rank: line.rank } : null;
    }

    describe({ step, rank }) {
      const names = ["forward", "backward", "optimizer and the like"];
      const title = step.direction === OTHER ? names[OTHER]
        : `${names[step.direction]} of micro-batch ${step.micro}`;
      const recomputed = d3.sum(step.recompute, ([begin, end]) => end - begin);
      const fields = [
        ["rank", Twinstep.rankName(this.trace, rank)],
        ["stage", step.stage],
        ["tasks", step.tasks],
        ["start", Twinstep.time(step.start, this.trace.iteration)],
        ["duration", Twinstep.time(step.end - step.start)],
        ["computing", Twinstep.time(step.busy)],
        ["waiting", Twinstep.time(Math.max(0, step.end - step.start - step.busy))],
      ];
      if (recomputed > 0) fields.push(["recomputing", Twinstep.time(recomputed)]);
      return `<h3>${title}</h3>` + Twinstep.fieldTable(fields.filter(([, value]) => value !== null));
    }
  }

  Twinstep.ScheduleView = ScheduleView;
  Twinstep.scheduleLegend = () => [
    { name: "forward (paler: later stage of the device)", colour: Twinstep.stepColour(false, 0, 1) },
    { name: "backward", colour: Twinstep.stepColour(true, 0, 1) },
    { name: "of it recomputation", colour: Twinstep.STEP_RECOMPUTE },
    { name: "optimizer and the like", colour: Twinstep.STEP_OTHER },
    { name: "no computation: bubble, or a wait for data", colour: "#ffffff" },
  ];
})();
