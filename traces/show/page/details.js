// What is known about the task that was clicked, and where its dependencies are.
"use strict";
(() => {
  const MOST = 40; // Names in a list.

  Twinstep.showDetails = (state) => {
    const root = d3.select("#details");
    const { selected, page } = state;
    root.attr("hidden", selected ? null : "").html("");
    document.body.classList.toggle("with-details", selected !== null);
    if (!selected) return;
    const trace = page.traces[selected.index];
    root.append("button").attr("class", "close").attr("title", "Close (Escape)").html("&times;")
      .on("click", () => state.select(null));
    root.append("h3").text(trace.operators[trace.op[selected.event]]);
    root.append("div").html(Twinstep.fieldTable(Twinstep.fields(page, trace, selected.event)));
    const list = (title, events) => {
      if (events.length === 0) return;
      root.append("h4").text(`${title} (${events.length})`);
      for (const event of events.slice(0, MOST)) {
        root.append("button").text(Twinstep.taskName(trace, event))
          .on("click", () => state.select({ index: selected.index, event }, true));
      }
      if (events.length > MOST) root.append("div").text(`and ${events.length - MOST} more`);
    };
    list("waited for", Twinstep.predecessors(trace, selected.event));
    list("then came", Twinstep.successors(trace, selected.event));
    list("started together with", Twinstep.companions(trace, selected.event));
    if (!trace.graph) root.append("h4").text("This trace does not know its graph: only the order of lanes.");
  };
})();
