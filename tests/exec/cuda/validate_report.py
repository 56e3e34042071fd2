#!/usr/bin/env python3
"""Profiles models and validates plans of them on this machine's GPUs; prints a table.

    validate_report.py TWINSTEP OUT [--gpus N] [--seconds S] [--only SUBSTRING] [--rows N,N]
        [--quick] [--what-if FOLDER] [--backend cpu --tiny]

Models are profiled once each, for all their plans of validation_rows.py; then each pair of model
and plan is simulated and trained by `twinstep validate`. So is the plan that `twinstep rank` finds
from that profile among all for the model and batch of the ranked rows. Rows that would begin after
S seconds are left out, and said to be. OUT gets what each command printed, the profiles, and of
every row JSON and compressed traces. Exit status 1 if a row failed.

What if: FOLDER is the OUT of a run on one GPU. From that profile, with this run's table of
collectives and nothing else of it, each plan is simulated again, and compared with what was
measured here.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
import time

from report_tools import (MEASURED_COLUMNS, measured_text, percent, print_errors, print_ranking,
                          run, validate, write_words)
from validation_rows import MODELS, QUICK, RANKED, ROWS

PICK = "rank's pick"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('twinstep')
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--gpus', type=int, default=1, choices=sorted(ROWS))
    parser.add_argument('--seconds', type=float, default=480)
    parser.add_argument('--only', default='')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--rows', help='numbers of rows, from 0, with commas between them')
    parser.add_argument('--steps', default='7')
    parser.add_argument('--profile-seconds', type=float, default=6, help='of each plan')
    parser.add_argument('--what-if', type=pathlib.Path, help='OUT of a run on one GPU')
    parser.add_argument('--backend', default='cuda')
    parser.add_argument('--tiny', action='store_true',
                        help='models of four layers and short sequences: a trial of this program')
    options = parser.parse_args()
    begin = time.time()
    work = options.out / 'work'
    work.mkdir(parents=True, exist_ok=True)
    data = work / 'text.txt'
    write_words(data)

    of_gpus = ROWS[options.gpus]
    rows = [row for row in of_gpus if (not options.quick or row[:2] in QUICK)
            and options.only in f'{row[0]} {row[1]}']
    if options.rows:
        numbers = options.rows.split(',')
        for number in numbers:
            if not number.isdecimal() or int(number) >= len(of_gpus):
                parser.error(f"--rows holds '{number}', not a number from 0 to {len(of_gpus) - 1}")
        rows = [of_gpus[int(number)] for number in numbers]
    sequence = 32 if options.tiny else 1024
    results = []
    for model in dict.fromkeys(row[0] for row in rows):
        of_model = [row for row in rows if row[0] == model]
        if time.time() - begin > options.seconds:
            results += [{'model': model, 'plan': row[1], 'left_out': True} for row in of_model]
            continue
        model_file = work / f'{model}.textproto'
        text = MODELS[model]
        if options.tiny:
            for field, value in (('hidden_size', 64), ('ffn_hidden_size', 128), ('layers', 4),
                                 ('attention_heads', 4), ('vocab_size', 300)):
                text = re.sub(rf'\b{field}: \d+', f'{field}: {value}', text)
        model_file.write_text(f'name: "{model}" {text}')
        plans = []
        for i, row in enumerate(of_model):
            plan_file = work / f'{model}-{i}.plan.textproto'
            text = row[2]
            if options.tiny:
                text = re.sub(r'(persistent_chunks|swapped_blocks|checkpointed_blocks): \d+',
                              r'\1: 1', text)
                text = re.sub(r'micro_batch: \d+', 'micro_batch: 1', text)
                text = re.sub(r'global_batch: \d+', 'global_batch: 8', text)
            plan_file.write_text(f'{text} sequence_length: {sequence}\n')
            plans.append(plan_file)
        profile = work / f'{model}.profile.textproto'
        # What several plans have in common is measured once, in each plan's share of the time.
        seconds = options.profile_seconds * len(plans)
        status = run([options.twinstep, 'profile', '--backend', options.backend, '--model', model_file]
                     + [x for plan in plans for x in ('--plan', plan)]
                     + ['--data', data, '--seconds', str(seconds), '--output', profile],
                     work / f'{model}.profile.log')
        if (status == 0 and model == of_gpus[0][0] and len(of_model) > 1
                and options.backend == 'cuda'):  # Worker threads have no fused kernels to rank.
            of_model = of_model + [(model, PICK, '')]
            plans.append(pick(options, model_file, profile, of_gpus[0][2], sequence, work))
        for i, row in enumerate(of_model):
            entry = {'model': model, 'plan': row[1]}
            results.append(entry)
            if status != 0:
                entry['failed'] = 'profile'
                continue
            if plans[i] is None:
                entry['failed'] = 'rank'
                continue
            if time.time() - begin > options.seconds:
                entry['left_out'] = True
                continue
            values = validate(options.twinstep, options.backend, work / f'{model}-{i}', '--model',
                              model_file, '--plan', plans[i], '--data', data, '--profile', profile,
                              '--steps', options.steps, '--tolerance', 0.05, '--tolerance-kind',
                              0.05, '--tolerance-memory', 0.03)
            if values is None:
                entry['failed'] = 'validate'
                continue
            entry.update(values)
            if options.what_if and options.gpus > 1:
                what_if(options, entry, model_file, plans[i], profile, work / f'{model}-{i}')
            print_row(entry)
            (options.out / 'rows.json').write_text(json.dumps(results, indent=1))
    print_table(results, of_gpus[:RANKED[options.gpus]])
    return 1 if any('failed' in row or 'what_if_failed' in row for row in results) else 0


def pick(options, model_file, profile, plan, sequence, work):
    """The file of the plan that `rank` finds for the global batch of `plan`."""
    batch = int(re.search(r'global_batch: (\d+)', plan).group(1)) if not options.tiny else 8
    sizes = [str(b) for b in (4, 8, 16, 32) if b * options.gpus <= batch] or ['1']
    folder = work / 'rank'
    shutil.rmtree(folder, ignore_errors=True)  # An earlier run's.
    status = run([options.twinstep, 'rank', '--model', model_file, '--gpus', str(options.gpus),
                  '--seq', str(sequence), '--global-batch', str(batch), '--micro-batch',
                  ','.join(sizes), '--zero', '0,1,2,3', '--space', 'all', '--profile', profile,
                  '--top', '3', '--plans', folder], work / 'rank.log')
    found = sorted(folder.glob('*-1.textproto')) if status == 0 else []
    return found[0] if found else None


def blocks(text, name):
    """Of a text profile, its top-level messages of that name."""
    return re.findall(rf'^{name} {{\n.*?^}}\n', text, re.MULTILINE | re.DOTALL)


def what_if(options, entry, model_file, plan, profile, stem):
    """Simulates the plan from a one-GPU profile and a table of collectives."""
    one = options.what_if / 'work' / f"{entry['model']}.profile.textproto"
    if not one.exists():
        entry['what_if_failed'] = f'no {one}'
        return
    here = profile.read_text()
    link = re.search(r'^    nvlink {\n.*?^    }\n', here, re.MULTILINE | re.DOTALL)
    text = one.read_text() + ''.join(blocks(here, 'collectives'))
    text = re.sub(r'^  node {\n    gpus: 1\n', f'  node {{\n    gpus: {options.gpus}\n'
                  + (link.group(0) if link else ''), text, flags=re.MULTILINE)
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
    done = [row for row in results if 'error' in row]
    if done:
        print_errors(done)
    named = {row[:2] for row in candidates} | {(candidates[0][0], PICK)}
    print_ranking([row for row in done if (row['model'], row['plan']) in named])


sys.exit(main())
