#!/usr/bin/env python3
"""The page of `twinstep show --html` in a headless Chromium: what a user sees and does."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import chrome  # noqa: E402

PLAN = ("simulate --model llama-7b --cluster h800 --gpus 4 --pp 4 --virtual-stages 2 --seq 4096 "
        "--global-batch 8 --offload-ratio 0.5 --recompute balanced").split()


def twinstep(*arguments):
    subprocess.run(["./twinstep", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.path = pathlib.Path(cls.folder.name)
        twinstep(*PLAN, "--trace", cls.path / "a.pb", "--json", cls.path / "report.json")
        # The same tasks from another writer: what the page says is held against it.
        twinstep(*PLAN, "--trace", cls.path / "a.json")
        twinstep(*PLAN, "--set", "node.pcie.d2h_bytes_per_s=20e9", "--trace", cls.path / "b.pb")
        twinstep("show", cls.path / "a.pb", "--html", cls.path / "one.html")
        twinstep("compare", cls.path / "a.pb", cls.path / "b.pb", "--html", cls.path / "compare.html")
        twinstep("show", cls.path / "a.pb", cls.path / "b.pb", "--html", cls.path / "two.html")
        cls.chrome = chrome.Chrome()

    @classmethod
    def tearDownClass(cls):
        cls.chrome.__exit__()
        cls.folder.cleanup()

    def open(self, name):
        self.chrome.open(self.path / name)

    def tearDown(self):
        self.assertEqual(self.chrome.complaints(), [])

    def event_of(self, operator, rank=0):
        """The first event of an operator on a rank."""
        return self.chrome.evaluate(f"""(() => {{
            const trace = Twinstep.state.page.traces[0];
            for (let i = 0; i < trace.events; ++i) {{
              if (trace.operators[trace.op[i]] === "{operator}" &&
                  trace.rows[trace.rowOf[i]].rank === {rank}) return i;
            }}
            return -1;
          }})()""")

    def zoom_to(self, event):
        self.chrome.evaluate(f"""(() => {{
            const trace = Twinstep.state.page.traces[0];
            const [from, to] = [trace.start[{event}], trace.end[{event}]];
            Twinstep.state.showTimes(Math.max(0, from - 2 * (to - from)), to + 2 * (to - from));
          }})()""")
        self.chrome.frame()

    def middle_of(self, event, panel=0):
        """Where an event is on the screen."""
        return self.chrome.evaluate(f"""(() => {{
            const panel = Twinstep.state.panels[{panel}];
            const box = panel.view.box({event}, panel.window());
            const lanes = panel.lanes.node().getBoundingClientRect();
            return [lanes.left + 1 + box.x + box.width / 2, lanes.top + 1 + box.y + box.height / 2];
          }})()""")

    def times(self):
        return self.chrome.evaluate("Twinstep.state.panels.map(panel => panel.x.domain())")

    def tooltip(self):
        return self.chrome.evaluate("""(() => {
            const tooltip = document.getElementById("tooltip");
            return tooltip.hidden ? "" : tooltip.innerText;
          })()""")

    def test_it_loads_and_asks_for_nothing_else(self):
        self.open("one.html")
        outside = [url for url in self.chrome.requests() if not url.startswith(("file:", "data:"))]
        self.assertEqual(outside, [])
        self.assertIn("llama-7b", self.chrome.evaluate("document.title"))
        self.assertIn("4 ranks", self.chrome.evaluate("document.getElementById('facts').innerText"))
        legend = self.chrome.evaluate("document.getElementById('legend').innerText")
        for name in ("forward", "backward", "recompute", "copies", "critical path"):
            self.assertIn(name, legend)

    def test_the_critical_path_is_the_simulators(self):
        self.open("one.html")
        report = json.loads((self.path / "report.json").read_text())
        shown, longest = self.chrome.evaluate("""(trace => [trace.criticalEvents.length,
            d3.sum(trace.criticalEvents, event => trace.end[event] - trace.start[event])])(
            Twinstep.state.page.traces[0])""")
        self.assertEqual(shown, report["critical_path"]["tasks"])
        # Its tasks leave no gap.
        self.assertAlmostEqual(longest * 1e-12, report["iteration_time_s"], delta=1e-9)

    def test_the_tooltip_says_what_the_trace_says(self):
        self.open("one.html")
        told = json.loads((self.path / "a.json").read_text())["traceEvents"]
        for operator in ("attention_forward", "copy_d2h", "gemm_wgrad"):
            event = self.event_of(operator)
            task, start, end = self.chrome.evaluate(f"""(trace => [trace.task[{event}],
                trace.start[{event}], trace.end[{event}]])(Twinstep.state.page.traces[0])""")
            written = next(one for one in told
                           if one.get("ph") == "X" and one["args"].get("task") == task)
            self.assertAlmostEqual(written["ts"], start * 1e-6, delta=2e-3)
            self.assertAlmostEqual(written["dur"], (end - start) * 1e-6, delta=2e-3)
            self.zoom_to(event)
            self.chrome.move(*self.middle_of(event))
            text = self.tooltip()
            self.assertTrue(text.startswith(operator), text)
            self.assertIn("duration", text)
            self.assertIn("bytes" if operator == "copy_d2h" else "bf16", text)

    def test_wheel_zooms_at_the_pointer_and_drag_pans(self):
        self.open("one.html")
        [[from_, to]] = self.times()
        x, y = self.middle_of(self.event_of("attention_forward", rank=1))
        at = f"Twinstep.state.panels[0].x.invert({x} - " \
             "Twinstep.state.panels[0].lanes.node().getBoundingClientRect().left - 1)"
        before = self.chrome.evaluate(at)
        self.chrome.wheel(x, y, -300)
        [[nearer, nearer_to]] = self.times()
        self.assertLess(nearer_to - nearer, 0.9 * (to - from_))
        self.assertAlmostEqual(self.chrome.evaluate(at), before, delta=(to - from_) / 500)
        self.chrome.drag(900, y, 600, y)
        [[moved, moved_to]] = self.times()
        self.assertGreater(moved, nearer)
        self.assertAlmostEqual(moved_to - moved, nearer_to - nearer, delta=1e6)
        self.chrome.evaluate("document.getElementById('whole').click()")
        self.chrome.frame()
        [[begin, end]] = self.times()
        self.assertAlmostEqual(begin, from_, delta=1)
        self.assertAlmostEqual(end, to, delta=1)

    def test_a_click_shows_dependencies_that_lead_on(self):
        self.open("one.html")
        event = self.event_of("copy_d2h")
        self.zoom_to(event)
        before = self.times()
        self.chrome.click(*self.middle_of(event))
        # The lanes have made room and show the same time.
        for old, new in zip(before[0], self.times()[0]):
            self.assertAlmostEqual(old, new, delta=1)
        details = self.chrome.evaluate("document.getElementById('details').innerText")
        self.assertIn("copy_d2h", details)
        self.assertIn("waited for", details)
        self.chrome.evaluate(
            "[...document.querySelectorAll('#details button')].find(b => b.innerText.startsWith('r0')).click()")
        self.chrome.frame()
        chosen = self.chrome.evaluate("Twinstep.state.selected.event")
        self.assertNotEqual(chosen, event)
        self.assertIn(chosen, self.chrome.evaluate(
            f"Twinstep.predecessors(Twinstep.state.page.traces[0], {event})"))

    def test_two_traces_are_zoomed_together_and_compared_task_by_task(self):
        self.open("two.html")
        headings = self.chrome.evaluate(
            "[...document.querySelectorAll('.panel h2')].map(heading => heading.innerText)")
        for heading, name in zip(headings, ("A a.pb, llama-7b", "B b.pb, llama-7b")):
            self.assertTrue(heading.startswith(name), heading)
        event = self.event_of("copy_d2h")
        x, y = self.middle_of(event)
        self.chrome.wheel(x, y, -200)
        first, second = self.times()
        self.assertEqual(first, second)
        self.zoom_to(event)
        self.chrome.move(*self.middle_of(event))
        text = self.tooltip()
        self.assertIn("difference", text)
        self.assertRegex(text, r"A\s+[\d.]+ ms\s+B\s+[\d.]+ ms")

    def test_colours_and_ranks_are_chosen(self):
        self.open("one.html")
        for mode, name in (("phase", "backward"), ("kind", "d2h"), ("micro-batch", "7")):
            self.choose("colour-by", mode)
            self.assertIn(name, self.chrome.evaluate("document.getElementById('legend').innerText"))
        lines = "Twinstep.state.panels[0].view.lines.length"
        every = self.chrome.evaluate(lines)
        self.choose("ranks", "1..2", "input")
        self.assertEqual(2 * self.chrome.evaluate(lines), every)

    def test_the_schedule_numbers_micro_batches(self):
        self.open("one.html")
        self.choose("view", "schedule")
        self.assertEqual(self.chrome.evaluate("Twinstep.state.panels[0].view.lines.length"), 4)
        x, y = self.chrome.evaluate("""(() => {
            const panel = Twinstep.state.panels[0];
            const line = panel.view.lines[2];
            const step = line.steps.find(step => step.direction === 1 && step.micro === 3);
            const lanes = panel.lanes.node().getBoundingClientRect();
            return [lanes.left + 1 + panel.x((step.start + step.end) / 2), lanes.top + 1 + line.y + 12];
          })()""")
        self.chrome.move(x, y)
        self.assertIn("backward of micro-batch 3", self.tooltip())

    def test_a_wait_is_not_drawn_as_work_in_the_schedule(self):
        self.open("one.html")
        self.choose("view", "schedule")
        # What is painted adds up to what the trace says that the ranks compute.
        painted, computed = self.chrome.evaluate("""(() => {
            const trace = Twinstep.state.page.traces[0];
            const length = ([start, end]) => end - start;
            let computed = 0;
            for (let i = 0; i < trace.events; ++i) {
              if (trace.timeClass[i] <= 2) computed += trace.end[i] - trace.start[i];
            }
            return [d3.sum(trace.steps.flat(), step => d3.sum(step.work, length)), computed];
          })()""")
        self.assertAlmostEqual(painted / computed, 1, delta=1e-3)
        # Bubble before the optimizer is no step.
        waits = self.chrome.evaluate("""Twinstep.state.page.traces[0].steps.flatMap(steps =>
            steps.filter(step => step.direction === 2).map(
                step => (step.end - step.start - step.busy) / (step.end - step.start)))""")
        self.assertTrue(waits)
        self.assertLess(max(waits), 0.1)
        self.assertTrue(self.chrome.evaluate(
            "document.getElementById('critical').parentNode.hidden"))

    def test_more_names_than_16_bits_count(self):
        events = [{"ph": "X", "cat": "kernel", "name": f"op{i}", "pid": 0, "tid": 7, "ts": 10 * i,
                   "dur": 10, "args": {"device": 0, "stream": 7, "correlation": i + 1}}
                  for i in range(70_000)]
        (self.path / "many.json").write_text(json.dumps({"traceEvents": events}))
        twinstep("show", self.path / "many.json", "--html", self.path / "many.html")
        self.open("many.html")
        for i in (0, 65_535, 65_536, 69_999):
            self.assertEqual(self.chrome.evaluate(f"""(() => {{
                const trace = Twinstep.state.page.traces[0];
                return trace.operators[trace.op[trace.start.indexOf({i} * 10e6)]];
              }})()"""), f"op{i}")
        last = self.event_of("op69999")
        self.assertEqual(last, 69_999)
        self.zoom_to(last)
        self.chrome.move(*self.middle_of(last))
        self.assertTrue(self.tooltip().startswith("op69999"), self.tooltip())

    def test_it_prints(self):
        self.open("one.html")
        self.zoom_to(self.event_of("copy_d2h"))
        height = self.chrome.evaluate("document.body.clientHeight")
        times = self.times()
        pdf = self.chrome.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(len(pdf), 20000)
        self.chrome.frame()
        self.assertEqual(self.chrome.evaluate("document.body.clientHeight"), height)
        for old, new in zip(times[0], self.times()[0]):
            self.assertAlmostEqual(old, new, delta=1)

    def test_the_comparison_stands_below_both_timelines(self):
        self.open("compare.html")
        report, panels, height = self.chrome.evaluate("""["report", "panels"].map(
            id => document.getElementById(id).getBoundingClientRect().top).concat(
            document.querySelector("#report pre").scrollHeight -
            document.querySelector("#report pre").clientHeight)""")
        self.assertGreater(report, panels)
        self.assertLessEqual(height, 2)  # All of it is there.
        self.assertTrue(self.chrome.pdf().startswith(b"%PDF"))

    def choose(self, control, value, event="change"):
        self.chrome.evaluate(f"""(() => {{
            const control = document.getElementById("{control}");
            control.value = "{value}";
            control.dispatchEvent(new Event("{event}"));
          }})()""")
        self.chrome.frame()


if __name__ == "__main__":
    if chrome.program() is None:
        print("SKIPPED: no Chromium (Debian: chromium-headless-shell) to show the page in")
        sys.exit(0)
    unittest.main()
