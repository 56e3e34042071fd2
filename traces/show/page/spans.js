// Bars of a row. Events narrower than two pixels are gathered by pixel: the pixel shows the category
// that has the most time in it, the paler the less of the pixel is busy. So a frame costs a pass over
// the visible events, and draws no more than the screen has.
"use strict";
(() => {
  const NARROW = 1.5; // Pixels.
  const SHADES = [.35, .6, .8, 1];

  // Collects rectangles by colour and fills them colour by colour.
  class Painter {
    constructor(context, categories) {
      this.context = context;
      this.styles = [];
      categories.forEach(({ colour }) => SHADES.forEach((share) =>
        this.styles.push(d3.interpolateRgb("#ffffff", colour)(share))));
      this.inks = categories.map(({ colour }) => Twinstep.inkOn(colour));
      this.rectangles = this.styles.map(() => []);
      this.labels = [];
    }
    add(category, shade, x, y, width, height) {
      this.rectangles[category * SHADES.length + shade].push(x, y, width, height);
    }
    label(category, text, x, y) {
      this.labels.push([this.inks[category], text, x, y]);
    }
    paint() {
      const { context } = this;
      this.rectangles.forEach((list, style) => {
        context.fillStyle = this.styles[style];
        for (let i = 0; i < list.length; i += 4) {
          context.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
        }
      });
      context.textBaseline = "middle";
      context.textAlign = "left";
      for (const [ink, text, x, y] of this.labels) {
        context.fillStyle = ink;
        context.fillText(text, x, y);
      }
    }
  }

  const measure = document.createElement("canvas").getContext("2d");
  measure.font = Twinstep.font("11px");
  const widths = new Map();
  const widthOf = (text) => {
    if (!widths.has(text)) widths.set(text, measure.measureText(text).width);
    return widths.get(text);
  };

  // As much of a text as has room; nothing where that says nothing.
  Twinstep.fitText = (text, width) => {
    const room = width - 5;
    const whole = widthOf(text);
    if (whole <= room) return text;
    const fits = Math.floor(text.length * room / whole) - 1;
    return fits >= 3 ? `${text.slice(0, fits)}\u2026` : "";
  };

  // `window`: left and right edge in pixels and `x` of a time. `categoryOf`: column of categories.
  Twinstep.drawRow = (painter, trace, row, categoryOf, window, y, height) => {
    const { x, left, right } = window;
    const scale = x(1) - x(0), origin = x(0);
    const shortest = NARROW / scale, last = (right - origin) / scale;
    const busy = new Float64Array(painter.inks.length);
    let pixel = -1, total = 0;
    let runStart = -1, runEnd = -1, runCategory = 0, runShade = 0;
    const endRun = () => {
      if (runStart >= 0) painter.add(runCategory, runShade, runStart, y, runEnd - runStart, height);
      runStart = -1;
    };
    const endPixel = () => {
      if (pixel < 0) return;
      let category = 0;
      for (let i = 1; i < busy.length; ++i) if (busy[i] > busy[category]) category = i;
      busy.fill(0);
      const share = total * scale;
      const shade = share > .85 ? 3 : share > .55 ? 2 : share > .2 ? 1 : 0;
      if (runEnd !== pixel || runCategory !== category || runShade !== shade) {
        endRun();
        runStart = pixel;
        runCategory = category;
        runShade = shade;
      }
      runEnd = pixel + 1;
      pixel = -1;
      total = 0;
    };
    for (let i = Twinstep.firstAfter(trace, row, (left - origin) / scale); i < row.last; ++i) {
      const start = trace.start[i], duration = trace.end[i] - start;
      if (start > last) break;
      if (duration < shortest) {
        const at = Math.max(left, Math.floor(origin + start * scale));
        if (at !== pixel) {
          endPixel();
          pixel = at;
        }
        // What takes no time is seen, too.
        busy[categoryOf[i]] += duration + 1e-9;
        total += duration;
        continue;
      }
      endPixel();
      endRun();
      const from = Math.max(left, origin + start * scale);
      const to = Math.min(right, origin + trace.end[i] * scale);
      const width = to - from;
      painter.add(categoryOf[i], 3, from, y, width > 4 ? width - .8 : width, height);
      if (width > 28 && height >= 11) {
        const text = Twinstep.fitText(trace.operators[trace.op[i]], width);
        if (text) painter.label(categoryOf[i], text, from + 3, y + height / 2 + .5);
      }
    }
    endPixel();
    endRun();
  };

  Twinstep.Painter = Painter;
})();
