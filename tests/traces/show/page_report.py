#!/usr/bin/env python3
"""How large the page of half a million tasks is, how long it takes to write, to open and to draw.

    bazel run //tests/traces/show:page_report
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import chrome  # noqa: E402

PLAN = ("simulate --model llama-65b --cluster h800 --gpus 256 --seq 8192 --global-batch 1216 --tp 2 "
        "--cp 2 --pp 8 --layers-per-stage 2 --offload-ratio auto --gpu-memory-budget 65000MiB").split()
FRAMES = 20


def seconds_of(*arguments):
    begin = time.monotonic()
    subprocess.run(["./twinstep", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def draw_ms(browser):
    """Of a frame with everything in sight, on the main thread."""
    return browser.evaluate(f"""(() => {{
        const begin = performance.now();
        for (let i = 0; i < {FRAMES}; ++i) Twinstep.state.draw();
        return (performance.now() - begin) / {FRAMES};
      }})()""")


def main():
    if chrome.program() is None:
        sys.exit("no Chromium (Debian: chromium-headless-shell) to show the page in")
    with tempfile.TemporaryDirectory() as folder:
        trace, page = pathlib.Path(folder, "trace.pb"), pathlib.Path(folder, "page.html")
        seconds_of(*PLAN, "--trace", trace)
        write_s = seconds_of("show", trace, "--html", page)
        with chrome.Chrome() as browser:
            browser.open(page)
            tasks = browser.evaluate("Twinstep.state.page.traces[0].events")
            ready_ms = browser.evaluate("Twinstep.readyMilliseconds")
            whole_ms = draw_ms(browser)
            longest = browser.evaluate("Twinstep.state.longest")
            browser.evaluate(f"Twinstep.state.showTimes({longest} * .4, {longest} * .401)")
            zoomed_ms = draw_ms(browser)
            browser.evaluate("""(() => {
                const view = document.getElementById("view");
                Twinstep.state.showTimes(0, Twinstep.state.longest);
                view.value = "schedule";
                view.dispatchEvent(new Event("change"));
              })()""")
            schedule_ms = draw_ms(browser)
            complaints = browser.complaints()
        print(f"tasks                    {tasks:,}")
        print(f"trace                    {trace.stat().st_size / 2**20:.1f} MiB")
        print(f"page                     {page.stat().st_size / 2**20:.1f} MiB, "
              f"{page.stat().st_size / tasks:.1f} bytes a task")
        print(f"to write it              {write_s:.2f} s")
        print(f"to the first picture     {ready_ms / 1e3:.2f} s after the page was asked for")
        print(f"a frame, everything      {whole_ms:.1f} ms")
        print(f"a frame, a thousandth    {zoomed_ms:.1f} ms")
        print(f"a frame, schedule        {schedule_ms:.1f} ms")
        if complaints:
            sys.exit("\n".join(complaints))


main()
