// The view of all lanes: which rows there are, what they show, what is under the pointer.
"use strict";
(() => {
  const ROW = 15, GAP = 2, RANK_GAP = 7;

  class LanesView {
    constructor(state, index) {
      this.state = state;
      this.trace = state.page.traces[index];
      this.index = index;
      this.arrange();
    }

    arrange() {
      this.placeOf = new Map(); // Row of the trace to its y.
      this.lines = [];
      let y = RANK_GAP / 2, rank = -1, lane = -1;
      this.trace.rows.forEach((row, index) => {
        if (!this.state.showsRank(this.trace, row.rank)) return;
        const newRank = row.rank !== rank;
        if (newRank && rank >= 0) y += RANK_GAP;
        this.lines.push({ y, row, index, newRank, newLane: newRank || row.lane !== lane });
        this.placeOf.set(index, y);
        rank = row.rank;
        lane = row.lane;
        y += ROW + GAP;
      });
      this.height = y + RANK_GAP / 2;
    }

    draw(context, window) {
      const { top, bottom, left, right, gutter } = window;
      const { colouring } = this.state;
      const painter = new Twinstep.Painter(context, colouring.categories);
      const visible = this.lines.filter(({ y }) => y + ROW >= top && y <= bottom);
      for (const { y, newRank } of visible) {
        if (!newRank) continue;
        context.fillStyle = "#d0d7de";
        context.fillRect(0, y - RANK_GAP / 2 - .5 - top, right, 1);
      }
      for (const { y } of visible) {
        context.fillStyle = "#f3f5f7";
        context.fillRect(gutter, y - top, right - gutter, ROW);
      }
      for (const { y, row } of visible) {
        Twinstep.drawRow(painter, this.trace, row, colouring.of[this.index], window, y - top, ROW);
      }
      painter.paint();
      if (this.state.critical) this.drawCriticalPath(context, window);
      this.drawSelection(context, window);
      context.clearRect(0, 0, gutter - 1, bottom - top);
      for (const { y, row, newRank, newLane } of visible) {
        const middle = y - top + ROW / 2 + .5;
        context.textAlign = "left";
        context.fillStyle = "#1f2328";
        if (newRank) {
          context.font = Twinstep.font("600 11px");
          context.fillText(Twinstep.rankName(this.trace, row.rank), 6, middle);
          context.font = Twinstep.font("11px");
        }
        context.textAlign = "right";
        context.fillStyle = "#57606a";
        if (newLane) context.fillText(Twinstep.fitText(this.trace.lanes[row.lane], 80), gutter - 6, middle);
      }
      context.fillStyle = "#d0d7de";
      context.fillRect(gutter - 1, 0, 1, bottom - top);
    }

    drawCriticalPath(context, { x, left, right, top, bottom }) {
      const { trace } = this;
      context.fillStyle = "#111111";
      let before = -1, beforeY = 0, beforeX = -1, lastStep = -Infinity;
      // Steps between lanes of one rank would hide the lanes where they are closer than this.
      const leastGap = 12;
      const events = trace.criticalEvents;
      const rankOf = (i) => trace.rows[trace.rowOf[events[Math.min(Math.max(i, 0), events.length - 1)]]].rank;
      // From two tasks before to one behind: a message's way from computation to computation is whole.
      const changesRank = (i) => [i - 1, i, i + 1].some((j) => rankOf(j) !== rankOf(j - 1));
      for (let i = 0; i < events.length; ++i) {
        const event = events[i];
        const place = this.placeOf.get(trace.rowOf[event]);
        if (place === undefined) continue;
        const from = x(trace.start[event]), to = x(trace.end[event]);
        const y = place - top + ROW - 3;
        if (to >= left && from <= right) {
          if (place + ROW >= top && place <= bottom && Math.floor(to) > beforeX) {
            const begin = Math.max(left, from);
            context.fillRect(begin, y, Math.max(1, Math.min(right, to) - begin), 3);
          }
          const step = before >= 0 && beforeY !== y && from >= left;
          if (step && (changesRank(i) || from - lastStep >= leastGap)) {
            lastStep = from;
            context.fillRect(from - .5, Math.min(y, beforeY), 1, Math.abs(y - beforeY) + 3);
          }
          beforeX = beforeY === y ? Math.floor(to) : -1;
        }
        if (from > right) break;
        before = event;
        beforeY = y;
      }
    }

    box(event, { x, top }) {
      const place = this.placeOf.get(this.trace.rowOf[event]);
      if (place === undefined) return null;
      const from = x(this.trace.start[event]), to = x(this.trace.end[event]);
      return { x: from, y: place - top, width: to - from, height: ROW };
    }

    drawSelection(context, window) {
      const { selected } = this.state;
      if (!selected) return;
      const event = selected.index === this.index ? selected.event
        : this.state.page.sameGraph ? this.state.page.traces[selected.index].partner[selected.event] : -1;
      if (event < 0) return;
      const own = this.box(event, window);
      if (!own) return;
      const arrow = (from, to, colour) => {
        if (!from || !to) return;
        const [x0, y0] = [from.x + from.width, from.y + ROW / 2];
        const [x1, y1] = [to.x, to.y + ROW / 2];
        const bend = Math.max(12, Math.min(60, Math.abs(x1 - x0) / 2));
        context.strokeStyle = context.fillStyle = colour;
        context.lineWidth = 1.5;
        context.beginPath();
        context.moveTo(x0, y0);
        context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
        context.stroke();
        context.beginPath();
        context.moveTo(x1, y1);
        context.lineTo(x1 - 6, y1 - 3.5);
        context.lineTo(x1 - 6, y1 + 3.5);
        context.fill();
      };
      context.save();
      context.beginPath();
      context.rect(window.gutter, 0, window.right - window.gutter, window.bottom - window.top);
      context.clip();
      for (const before of Twinstep.predecessors(this.trace, event)) {
        arrow(this.box(before, window), own, "#0a58b5");
      }
      for (const after of Twinstep.successors(this.trace, event)) {
        arrow(own, this.box(after, window), "#b3261e");
      }
      for (const other of [event, ...Twinstep.companions(this.trace, event)]) {
        const box = this.box(other, window);
        if (!box) continue;
        context.strokeStyle = "#111111";
        context.lineWidth = other === event ? 2.5 : 1.5;
        context.strokeRect(box.x, box.y, Math.max(box.width, 2), box.height);
      }
      context.restore();
    }

    // The event at a time and a height, or nothing. `slack`: time of a few pixels.
    at(time, y, slack) {
      const line = this.lines.find((one) => y >= one.y && y < one.y + ROW);
      if (!line) return null;
      const event = Twinstep.firstAfter(this.trace, line.row, time - slack);
      if (event === line.row.last || this.trace.start[event] > time + slack) return null;
      return { event };
    }

    describe({ event }) {
      return `<h3>${Twinstep.escape(this.trace.operators[this.trace.op[event]])}</h3>` +
        Twinstep.fieldTable(Twinstep.fields(this.state.page, this.trace, event));
    }
  }

  Twinstep.LanesView = LanesView;
})();
