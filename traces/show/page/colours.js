// Colours that colour-blind eyes tell apart (Okabe and Ito's, "Color Universal Design", 2008, some
// of them lighter so that dark text is legible on them).
"use strict";
(() => {
  const BLUE = "#4c9bd1", SKY = "#9ad3f2", GREEN = "#35b08f", ORANGE = "#f0a830", YELLOW = "#f5e960",
    RED = "#e07b39", PURPLE = "#d291b8", GREY = "#a9adb3", BROWN = "#b39b72", DARK = "#3f6fa8";
  // Classes of time (traces/breakdown.h); computation is told apart by direction.
  const BY_CLASS = [DARK, YELLOW, GREEN, RED, BROWN, "#e9635e", PURPLE, GREY, "#d9dce0", PURPLE];
  const BY_PHASE = { forward: BLUE, recompute: YELLOW, backward: ORANGE, gradient_sync: PURPLE,
    optimizer: GREEN, parameter_gather: GREY, unknown: "#d9dce0" };
  const BY_KIND = { compute: BLUE, h2d: GREEN, d2h: SKY, send: ORANGE, recv: YELLOW, collective: PURPLE,
    host: GREY };
  const MORE = [BLUE, ORANGE, GREEN, PURPLE, YELLOW, RED, SKY, BROWN, DARK, GREY];

  const named = (table) => (name, index) => table[name] || MORE[index % MORE.length];

  // How a trace's events are told apart: categories with name and colour, and each event's.
  Twinstep.colouring = (page, mode) => {
    const tables = { phase: ["phases", "phase", named(BY_PHASE)], kind: ["kinds", "kind", named(BY_KIND)] };
    if (mode in tables) {
      // Both traces in one legend, by name.
      const [namesOf, column, colourOf] = tables[mode];
      const names = [...new Set(page.traces.flatMap((trace) => trace[namesOf]))];
      const categories = names.map((name, i) => ({ name: name.replace("_", " "), colour: colourOf(name, i) }));
      return { categories, of: page.traces.map((trace) => {
        const place = trace[namesOf].map((name) => names.indexOf(name));
        return Uint32Array.from(trace[column], (value) => place[value]);
      }) };
    }
    if (mode === "micro-batch") {
      let most = 0;
      for (const trace of page.traces) for (const micro of trace.microBatch) most = Math.max(most, micro);
      const shown = Math.min(most, 12);
      const categories = [{ name: "none", colour: "#d9dce0" }];
      for (let i = 0; i < shown; ++i) {
        categories.push({ name: i + 1 === shown && most > shown ? `${i}, and so on` : `${i}`,
          colour: d3.interpolateCividis(.25 + .75 * i / Math.max(shown - 1, 1)) });
      }
      return { categories, of: page.traces.map((trace) =>
        Uint16Array.from(trace.microBatch, (micro) => micro === 0 ? 0 : 1 + (micro - 1) % shown)) };
    }
    const categories = [{ name: "forward", colour: BLUE }, { name: "backward", colour: ORANGE },
      ...page.classes.map((name, i) => ({ name, colour: BY_CLASS[i] }))];
    return { categories, of: page.traces.map((trace) => {
      const forward = trace.phases.indexOf("forward"), backward = trace.phases.indexOf("backward");
      return trace.timeClass.map((timeClass, event) => {
        const phase = timeClass > 0 ? -2 : trace.phase[event];
        return phase === forward ? 0 : phase === backward ? 1 : timeClass + 2;
      });
    }) };
  };

  // Only what occurs.
  Twinstep.usedCategories = (colouring) => {
    const used = new Set();
    for (const column of colouring.of) for (const category of column) used.add(category);
    return colouring.categories.map((category, index) => ({ ...category, index }))
      .filter(({ index }) => used.has(index));
  };

  Twinstep.inkOn = (colour) => d3.lab(colour).l > 52 ? "#1f2328" : "#ffffff";

  // Shades of a direction, one a stage of the device.
  Twinstep.stepColour = (backward, stage, stages) => {
    const [from, to] = backward ? [ORANGE, "#fbe3b4"] : [BLUE, "#cfe6f5"];
    return d3.interpolateLab(from, to)(stages > 1 ? stage / (stages - 1) : 0);
  };
  Twinstep.STEP_RECOMPUTE = YELLOW;
  Twinstep.STEP_OTHER = "#b9dccf";
  Twinstep.POOL_COLOURS = { gpu: "#0072b2", pinned_host: "#d55e00", host: "#009e73" };
})();
