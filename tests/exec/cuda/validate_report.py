#!/usr/bin/env python3
"""Profiles models and validates plans of them on this machine's GPUs; prints a table.

    validate_report.py TWINSTEP OUT [--gpus N] [--seconds S] [--only SUBSTRING] [--rows N,N]
        [--quick] [--what-if FOLDER] [--backend cpu --tiny]

Models are profiled once each, for all their plans of validation_rows.py; then each pair of model
and plan is simulated and trained by `twinstep validate`. So is the plan that `twinstep rank` finds
from that profile among all for the model and batch of the ranked rows. Rows that would begin after
S seconds are left out, and said to be. OUT gets what each command printed, the profiles, and of
every row JSON and compressed traces. Exit status 1 if a row failed.

What if: FOLDER is the OUT of a run on one GPU. From that profile, with this run's tables of what
GPUs do together (collectives and the delays before them, copies of several GPUs at once) and
nothing else of it, each plan is simulated again, and compared with what was measured here.
"""

import argparse
import json
import pathlib
import re
import sys

from report_tools import (MEASURED_COLUMNS, Report, best_plan, measured_text, percent,
                          print_summary, run, validate)
from validation_rows import MODELS, QUICK, RANKED, ROWS

PICK = "rank's pick"


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument('twinstep')
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--gpus', type=int, default=1, choices=sorted(ROWS))
    parser.add_argument('--seconds', type=float, default=480)
    parser.add_argument('--only', default='')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--rows', help='numbers of rows, from 0, with commas between them')
    parser.add_argument('--steps', type=int, default=7)
    parser.add_argument('--profile-seconds', type=float, default=5, help='of each plan')
    parser.add_argument('--what-if', type=pathlib.Path, help='OUT of a run on one GPU')
    parser.add_argument('--backend', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--tiny', action='store_true',
                        help='models of four layers and short sequences: a trial of this program')
    options = parser.parse_args()
    count = len(ROWS[options.gpus])
    for number in options.rows.split(',') if options.rows else []:
        if not number.isdecimal() or int(number) >= count:
            parser.error(f"--rows holds '{number}', not a number from 0 to {count - 1}")
    if options.what_if and options.gpus == 1:
        parser.error('--what-if needs --gpus of several')
    if not chosen_rows(options):
        parser.error('no row is left: see --only and --quick')
    return options


def chosen_rows(options):
    of_gpus = ROWS[options.gpus]
    if options.rows:
        return [of_gpus[int(number)] for number in options.rows.split(',')]
    return [row for row in of_gpus if (not options.quick or row[:2] in QUICK)
            and options.only in f'{row[0]} {row[1]}']


def tiny_model(text):
    for field, value in (('hidden_size', 64), ('ffn_hidden_size', 128), ('layers', 4),
                         ('attention_heads', 4), ('vocab_size', 300)):
        text = re.sub(rf'\b{field}: \d+', f'{field}: {value}', text)
    return text


def tiny_plan(text):
    text = re.sub(r'(persistent_chunks|swapped_blocks|checkpointed_blocks): \d+', r'\1: 1', text)
    text = re.sub(r'micro_batch: \d+', 'micro_batch: 1', text)
    return re.sub(r'global_batch: \d+', 'global_batch: 8', text)


class ValidateReport(Report):
    def __init__(self, options):
        super().__init__(options)
        self.sequence = 32 if options.tiny else 1024

    def measure(self, rows):
        """All rows of MODELS and plans, model by model."""
        for model in dict.fromkeys(row[0] for row in rows):
            plans = [row[1:] for row in rows if row[0] == model]
            if self.is_late():
                self.rows += [{'model': model, 'plan': name, 'left_out': True} for name, _ in plans]
            else:
                self.measure_model(model, plans)

    def measure_model(self, model, plans):
        """Rows of one model: (name, plan)."""
        model_file = self.model_file(model)
        files = [self.plan_file(f'{model}-{i}', text) for i, (_, text) in enumerate(plans)]
        profile = self.work / f'{model}.profile.textproto'
        status = self.profile(model_file, files, profile, self.work / f'{model}.profile.log')
        named = [(name, file) for (name, _), file in zip(plans, files)]
        first_model, _, first_plan = ROWS[self.options.gpus][0]
        # Worker threads have no fused kernels to rank.
        can_rank = status == 0 and len(plans) > 1 and self.options.backend == 'cuda'
        if can_rank and model == first_model:
            named.append((PICK, self.pick(model_file, profile, first_plan)))
        for i, (name, plan) in enumerate(named):
            row = {'model': model, 'plan': name}
            self.rows.append(row)
            if status != 0:
                row['failed'] = 'profile'
            elif plan is None:
                row['failed'] = 'rank'
            elif self.is_late():
                row['left_out'] = True
            else:
                self.measure_plan(row, model_file, plan, profile, self.work / f'{model}-{i}')

    def measure_plan(self, row, model_file, plan, profile, stem):
        values = validate(self.options.twinstep, self.options.backend, stem, '--model', model_file,
                          '--plan', plan, '--data', self.data, '--profile', profile, '--steps',
                          self.options.steps, '--tolerance', 0.05, '--tolerance-kind', 0.05,
                          '--tolerance-memory', 0.03)
        if values is None:
            row['failed'] = 'validate'
            return
        row.update(values)
        if self.options.what_if:
            what_if(self.options, row, model_file, plan, profile, stem)
        print_row(row)
        self.save()

    def model_file(self, model):
        text = tiny_model(MODELS[model]) if self.options.tiny else MODELS[model]
        return self.file(f'{model}.textproto', f'name: "{model}" {text}')

    def plan_file(self, name, text):
        text = tiny_plan(text) if self.options.tiny else text
        return self.file(f'{name}.plan.textproto', f'{text} sequence_length: {self.sequence}')

    def pick(self, model_file, profile, plan):
        """The file of the plan that `rank` finds for the global batch of `plan`."""
        batch = 8 if self.options.tiny else int(re.search(r'global_batch: (\d+)', plan).group(1))
        sizes = [str(b) for b in (4, 8, 16, 32) if b * self.options.gpus <= batch] or ['1']
        return best_plan(self.options.twinstep, self.work / 'rank', self.work / 'rank.log',
                         '--model', model_file, '--gpus', self.options.gpus, '--seq',
                         self.sequence, '--global-batch', batch, '--micro-batch', ','.join(sizes),
                         '--zero', '0,1,2,3', '--space', 'all', '--profile', profile, '--top', 3)


def blocks(text, name):
    """Of a text profile, its top-level messages of that name."""
    return re.findall(rf'^{name} {{\n.*?^}}\n', text, re.MULTILINE | re.DOTALL)


def what_if(options, entry, model_file, plan, profile, stem):
    """Simulates the plan from a one-GPU profile and what no single GPU can tell: tables of
    collectives and of copies of several GPUs at once, and what passes where ranks meet and lanes of
    collectives wait."""
    one = options.what_if / 'work' / f"{entry['model']}.profile.textproto"
    if not one.exists():
        entry['what_if_failed'] = f'no {one}'
        return
    here = profile.read_text()
    link = re.search(r'^    nvlink {\n.*?^    }\n', here, re.MULTILINE | re.DOTALL)
    text = one.read_text() + ''.join(blocks(here, 'collectives') + blocks(here, 'host_copies'))
    text, found = re.subn(r'^  node {\n    gpus: 1\n', f'  node {{\n    gpus: {options.gpus}\n'
                          + (link.group(0) if link else ''), text, flags=re.MULTILINE)
    if found != 1:
        entry['what_if_failed'] = f'{one} is not of one GPU'
        return
    for field in ('lane_handoff_s', 'meeting_s'):
        if not re.search(f'^{field}:', text, re.MULTILINE):
            text += ''.join(re.findall(f'^{field}: .*\n', here, re.MULTILINE))
    mixed, result = (pathlib.Path(f'{stem}.what-if.{name}') for name in ('profile.textproto', 'json'))
    mixed.write_text(text)
    status = run([options.twinstep, 'simulate', '--model', model_file, '--gpus', str(options.gpus),
                  '--plan', plan, '--profile', mixed, '--json', result], f'{stem}.what-if.log')
    if status == 0 and result.exists():
        entry['what_if_s'] = json.loads(result.read_text())['iteration_time_s']
        entry['what_if'] = entry['what_if_s'] / entry['measured_s'] - 1
    else:
        entry['what_if_failed'] = f'exit status {status}, {stem}.what-if.log'


def print_row(row):
    print(f"{row['model']:14s}{row['plan']:30s}" + measured_text(row)
          + (f"; what if {percent(row['what_if'])}" if 'what_if' in row else '')
          + (f"; what if FAILED: {row['what_if_failed']}" if 'what_if_failed' in row else ''),
          flush=True)


def print_table(results, candidates):
    print('\n' + MEASURED_COLUMNS)
    for row in results:
        if 'error' in row:
            print_row(row)
        else:
            print(f"{row['model']:14s}{row['plan']:30s}"
                  + (f"FAILED: {row['failed']}" if 'failed' in row else 'left out: no time'))
    named = {row[:2] for row in candidates} | {(candidates[0][0], PICK)}
    print_summary(results, lambda row: (row['model'], row['plan']) in named)


def main():
    options = read_options()
    report = ValidateReport(options)
    report.measure(chosen_rows(options))
    print_table(report.rows, ROWS[options.gpus][:RANKED[options.gpus]])
    return report.exit_status()


if __name__ == '__main__':
    sys.exit(main())
