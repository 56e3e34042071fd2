#!/usr/bin/env python3
"""Plans of several GPUs of one host: losses, predictions, measurements; prints one table.

    several_gpus.py TWINSTEP OUT --gpus N [--backend cuda|cpu|none] [--parts P,P] [--seconds S]

Parts, each a section of the table:
  contention  copies of 1, 2, 4 ... N GPUs at once, CPU Adam beside them, collectives beside copies
  losses      every plan trains a tiny model in fp64 as the plain plan does (within 1e-9)
  plans       at least twelve plans of N GPUs: profiled, simulated, trained, compared
  scaling     the best chunk plan for 1, 2, 4 ... N GPUs, by `rank` (ProTrain's figure 4 in kind)
  adaptive    batch by batch: the plan found for it against the plan of the largest batch (figure 5)

`--backend none` only predicts, from hw_specs/h200-xN.textproto: what to expect before anyone has
the machine. `--backend cpu` tries everything with tiny models. A row that would begin after S
seconds is left out, and the table says so. OUT gets rows.json, what each command printed, profiles,
and of each row JSON and compressed traces. Exit status 1 if a row failed.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys

from report_tools import (MEASURED_COLUMNS, Report, best_plan, measured_text, print_summary, run,
                          validate)

LLAMA = ('name: "{n}" family: LLAMA hidden_size: {h} ffn_hidden_size: {f} layers: {l} '
         'attention_heads: {a} vocab_size: {v} max_sequence_length: {s}')
PARTS = ('contention', 'losses', 'plans', 'scaling', 'adaptive')
LOSS_BOUND = 1e-9  # As that of the tests: fp64, sums in another order.
# What plans that `rank` finds may take: contexts, libraries and the system take the rest.
GPU_MEMORY = '136GiB'
HOST_MEMORY = {2: '240GiB', 4: '480GiB', 8: '530GiB'}


@dataclasses.dataclass
class Size:
    """What is trained, and how much at once."""
    model: str
    layers: int
    sequence: int
    micro_batch: int
    zero_micro_batch: int  # Of plans that keep whole weights and gradients on each GPU.
    batch_a_gpu: int
    fixed_buffers: int
    larger_model: str  # For scaling.
    scaling_batch: int  # Sequences a GPU.
    batches: tuple  # Sequences a GPU, for adaptive.


LARGE = Size(
    model=LLAMA.format(n='llama-6.7b', h=4096, f=11008, l=32, a=32, v=32000, s=1024), layers=32,
    sequence=1024, micro_batch=4, zero_micro_batch=2, batch_a_gpu=16, fixed_buffers=3,
    larger_model=LLAMA.format(n='llama-13b', h=5120, f=13824, l=40, a=40, v=32000, s=1024),
    scaling_batch=8, batches=(1, 2, 4, 8, 16, 32))
TINY = Size(
    model=LLAMA.format(n='tiny', h=64, f=192, l=32, a=8, v=256, s=64), layers=32, sequence=64,
    micro_batch=1, zero_micro_batch=1, batch_a_gpu=4, fixed_buffers=3,
    larger_model=LLAMA.format(n='tiny-48', h=64, f=192, l=48, a=8, v=256, s=64),
    scaling_batch=1, batches=(1, 2))


def plan_rows(gpus, size):
    """(name, fields of sim/plan/plan.proto) of plans of `gpus` GPUs, all with one global batch."""
    batch = f'sequence_length: {size.sequence} global_batch: {size.batch_a_gpu * gpus} '
    usual = batch + f'micro_batch: {size.micro_batch} '
    data = batch + f'micro_batch: {size.zero_micro_batch} data_parallel: {gpus} '
    chunks = batch + f'micro_batch: {size.batch_a_gpu} data_parallel: {gpus} '
    half = gpus // 2
    rows = [(f'p {gpus}, v {v}, offload {ratio:g}',
             usual + f'pipeline_parallel: {gpus} virtual_stages: {v} offload_ratio: {ratio}')
            for v in (2, 4) for ratio in (0, 0.5, 1)]
    if half > 1:
        rows.append((f't 2, p {half}', usual + f'tensor_parallel: 2 pipeline_parallel: {half}'))
    rows.append((f't {gpus}', usual + f'tensor_parallel: {gpus}'))
    rows.append((f'c 2, d {half}', usual + f'context_parallel: 2 data_parallel: {half}'))
    rows += [(f'd {gpus}, ZeRO {stage}', data + f'zero_stage: {stage}') for stage in range(4)]
    rows.append((f'd {gpus}, chunks, all stream',
                 chunks + f'persistent_chunks: 0 chunk_buffers: {size.fixed_buffers} '
                 f'checkpointed_blocks: {size.layers}'))
    return rows


def last_words(log):
    lines = [line for line in log.read_text().splitlines() if line and 'exit status' not in line]
    return lines[-1][-200:] if lines else ''


class SeveralGpus(Report):
    def __init__(self, options):
        super().__init__(options)
        self.twinstep = options.twinstep
        self.size = TINY if options.backend == 'cpu' else LARGE
        self.cluster = f'h200-x{options.gpus}'

    def add(self, part, name, **values):
        row = {'part': part, 'plan': name, **values}
        self.rows.append(row)
        print_row(row)
        self.save()

    # -- Contention -----------------------------------------------------------------------------

    def contention(self):
        said = self.work / 'contention.log'
        binary = self.options.contention_benchmark
        status = run([binary, self.options.backend, self.options.gpus, 0.5], said)
        if status != 0:
            self.add('contention', str(binary), failed=last_words(said))
            return
        for line in said.read_text().splitlines():
            if ' GPUs ' in line:
                self.add('contention', line[:48].strip(), rates=line[48:].strip())

    # -- Losses ---------------------------------------------------------------------------------

    def losses(self):
        model = self.file('losses.textproto', TINY.model)
        rows = [('plain', f'sequence_length: {TINY.sequence} micro_batch: {TINY.micro_batch} '
                 f'global_batch: {TINY.batch_a_gpu * self.options.gpus}')]
        rows += plan_rows(self.options.gpus, TINY)
        reference = None
        for i, (name, plan) in enumerate(rows):
            log = self.work / f'losses-{i}.jsonl'
            said = self.work / f'losses-{i}.log'
            status = run([self.twinstep, 'train', '--backend', self.options.backend, '--model',
                          model, '--plan', self.file(f'losses-{i}.plan', plan), '--data', self.data,
                          '--steps', 5, '--precision', 'fp64', '--log', log], said)
            if status != 0:
                self.add('losses', name, failed=last_words(said))
                continue
            got = [json.loads(line)['loss'] for line in log.read_text().splitlines()]
            if reference is None:
                reference = got
            difference = max(abs(a - b) for a, b in zip(got, reference))
            if len(got) != len(reference) or not difference <= LOSS_BOUND:
                self.add('losses', name, failed=f'losses differ by {difference:.1e}')
            else:
                self.add('losses', name, loss_difference=difference)

    # -- Predictions and measurements -----------------------------------------------------------

    def compare(self, part, model_text, rows):
        """Rows of (name, plan, GPUs): predicted, and measured where there is a backend."""
        name = model_text.split('"')[1]
        model = self.file(f'{name}.textproto', model_text)
        tagged = [(f'{part}-{i}', *row) for i, row in enumerate(rows)]
        plans = [self.file(f'{tag}.plan', plan) for tag, _, plan, _ in tagged]
        profile = self.work / f'{part}.profile.textproto'
        if self.options.backend != 'none':
            said = self.work / f'{part}.profile.log'
            if self.profile(model, plans, profile, said) != 0:
                self.add(part, f'{name}: profile', failed=last_words(said))
                return
        for (tag, row_name, _, gpus), plan in zip(tagged, plans):
            label = f'{name}: {row_name}'
            if self.is_late():
                self.add(part, label, left_out=True)
            elif self.options.backend == 'none':
                self.predict(part, tag, label, model, plan, gpus)
            else:
                self.validate(part, tag, label, model, plan, profile)

    def predict(self, part, tag, label, model, plan, gpus):
        result = self.work / f'{tag}.json'
        status = run([self.twinstep, 'simulate', '--cluster', self.cluster, '--gpus', gpus,
                      '--model', model, '--plan', plan, '--json', result],
                     self.work / f'{tag}.log')
        parsed = json.loads(result.read_text()) if result.exists() else {}
        if status == 1:
            self.add(part, label, does_not_fit=parsed['infeasible']['message'])
        elif status != 0:
            self.add(part, label, failed=last_words(self.work / f'{tag}.log'))
        else:
            breakdown = parsed['breakdown']
            self.add(part, label, predicted_s=parsed['iteration_time_s'],
                     tokens_per_s=parsed['tokens_per_s'],
                     predicted_gib=parsed['peak_gpu_memory_bytes'] / 2**30,
                     breakdown={name: seconds for name, seconds in breakdown.items()
                                if seconds > 0.005 * parsed['iteration_time_s']})

    def validate(self, part, tag, label, model, plan, profile):
        values = validate(self.twinstep, self.options.backend, self.work / tag, '--model', model,
                          '--plan', plan, '--data', self.data, '--profile', profile, '--steps',
                          self.options.steps, '--tolerance', 0.05)
        if values is None:
            self.add(part, label, failed=last_words(self.work / f'{tag}.log'))
        else:
            self.add(part, label, **values)

    def best_chunks(self, tag, model_text, gpus, batch_a_gpu):
        """The plan that `rank` finds, or a row that says why there is none."""
        name = f'{tag}-{gpus}-{batch_a_gpu}'
        said = self.work / f'{name}.rank.log'
        best = best_plan(self.twinstep, self.work / f'{name}.best', said, '--space', 'chunks',
                         '--cluster', self.cluster, '--gpus', gpus, '--model',
                         self.file(f'{name}.textproto', model_text), '--seq', self.size.sequence,
                         '--global-batch', batch_a_gpu * gpus, '--gpu-memory-capacity', GPU_MEMORY,
                         '--host-memory-budget', HOST_MEMORY[self.options.gpus], '--top', 1)
        if best is not None:
            return best.read_text()
        self.add(tag, f'rank on {gpus} GPUs', failed=last_words(said))
        return None

    # -- Parts ----------------------------------------------------------------------------------

    def plans(self):
        rows = [(name, plan, self.options.gpus)
                for name, plan in plan_rows(self.options.gpus, self.size)]
        searched = self.best_chunks('plans', self.size.model, self.options.gpus,
                                    self.size.batch_a_gpu)
        if searched is not None:
            rows.append((f'd {self.options.gpus}, chunks, searched', searched, self.options.gpus))
        self.compare('plans', self.size.model, rows)

    def scaling(self):
        rows = []
        for gpus in (2**i for i in range(int(math.log2(self.options.gpus)) + 1)):
            plan = self.best_chunks('scaling', self.size.larger_model, gpus,
                                    self.size.scaling_batch)
            if plan is not None:
                sequences = self.size.scaling_batch * gpus
                rows.append((f'{gpus} GPU{"s" * (gpus > 1)}, {sequences} sequences', plan, gpus))
        self.compare('scaling', self.size.larger_model, rows)

    def adaptive(self):
        gpus = self.options.gpus
        fixed = self.best_chunks('adaptive', self.size.model, gpus, max(self.size.batches))
        if fixed is None:
            return
        rows = []
        for batch in self.size.batches:
            found = self.best_chunks('adaptive', self.size.model, gpus, batch)
            if found is not None:
                rows.append((f'{batch} a GPU, searched', found, gpus))
            if batch != max(self.size.batches):
                rows.append((f'{batch} a GPU, fixed', with_batch(fixed, batch, gpus), gpus))
        self.compare('adaptive', self.size.model, rows)


def with_batch(plan, batch, gpus):
    lines = [line for line in plan.splitlines()
             if not line.startswith(('micro_batch:', 'global_batch:'))]
    return '\n'.join(lines + [f'micro_batch: {batch}', f'global_batch: {batch * gpus}'])


def row_text(row):
    text = f"{row['part']:11s}{row['plan']:50s}"
    if 'failed' in row:
        return text + 'FAILED: ' + row['failed']
    if 'does_not_fit' in row:
        return text + 'does not fit: ' + row['does_not_fit']
    if 'left_out' in row:
        return text + 'left out: no time'
    if 'loss_difference' in row:
        return text + f"losses within {row['loss_difference']:.1e}"
    if 'rates' in row:
        return text + row['rates']
    if 'measured_s' in row:
        return text + measured_text(row)
    text += f"{1e3 * row['predicted_s']:10.2f}"
    parts = ', '.join(f"{name.removesuffix('_s').replace('_', ' ')} {1e3 * s:.0f}"
                      for name, s in row['breakdown'].items())
    return text + f"{row['tokens_per_s']:10,.0f}{row['predicted_gib']:8.2f}  {parts}"


def print_row(row):
    print(row_text(row), flush=True)


def print_table(rows, backend):
    print('\nTable: ' + ('ms predicted; tokens/s; GiB a GPU; ms of the mean rank'
                         if backend == 'none' else MEASURED_COLUMNS))
    for row in rows:
        print_row(row)
    print_summary(rows, lambda row: row['part'] == 'plans')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('twinstep', type=pathlib.Path)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--gpus', type=int, required=True)
    parser.add_argument('--backend', choices=('cuda', 'cpu', 'none'), default='cuda')
    parser.add_argument('--parts', default=','.join(PARTS))
    parser.add_argument('--contention-benchmark', default='bazel-bin/tests/exec/cuda/'
                        'contention_benchmark')
    parser.add_argument('--seconds', type=float, default=540)
    parser.add_argument('--steps', type=int, default=5)
    parser.add_argument('--profile-seconds', type=float, default=3, help='of each plan')
    options = parser.parse_args()
    if options.gpus not in (2, 4, 8):
        parser.error('--gpus is 2, 4 or 8')
    parts = options.parts.split(',')
    for part in parts:
        if part not in PARTS:
            parser.error(f"--parts holds '{part}', which is none of {', '.join(PARTS)}")
    if options.backend == 'none':
        parts = [part for part in parts if part not in ('contention', 'losses')]
        if not parts:
            parser.error('--backend none has nothing to run of --parts ' + options.parts)
    report = SeveralGpus(options)
    for part in parts:
        getattr(report, part)()
    print_table(report.rows, options.backend)
    return report.exit_status()


if __name__ == '__main__':
    sys.exit(main())
