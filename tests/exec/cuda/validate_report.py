#!/usr/bin/env python3
"""Profiles models and validates plans of them on this machine's GPUs; prints a table.

    validate_report.py TWINSTEP OUT [--gpus N] [--seconds S] [--only SUBSTRING] [--rows N,N]
        [--quick] [--what-if FOLDER] [--backend cpu --tiny]

Models are profiled once each, for all their plans of validation_rows.py; then each pair of model
and plan is simulated and trained by `twinstep validate`. Rows that would begin after S seconds are
left out, and said to be. OUT gets what each command printed, the profiles, and of every row JSON
and compressed traces.

What if: FOLDER is the OUT of a run on one GPU. From that profile, with this run's table of
collectives and nothing else of it, each plan is simulated again, and compared with what was
measured here.
"""

import argparse
import gzip
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import time

from validation_rows import MODELS, QUICK, RANKED, ROWS

def run(command, log):
    with open(log, 'w') as file:
        begin = time.time()
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
        file.write(f'\nexit status {status}, {time.time() - begin:.1f} s\n')
    return status


def share(pair):
    return pair['a_s'] / pair['b_s'] - 1 if pair['b_s'] else None


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
                        help='models of two layers and short sequences: a trial of this program')
    options = parser.parse_args()
    begin = time.time()
    work = options.out / 'work'
    work.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    words = [''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=random.randint(1, 9)))
             for _ in range(5000)]
    data = work / 'text.txt'
    data.write_text(' '.join(words[int(5000 ** random.random()) - 1] for _ in range(400000)))

    of_gpus = ROWS[options.gpus]
    rows = [row for row in of_gpus if (not options.quick or row[:2] in QUICK)
            and options.only in f'{row[0]} {row[1]}']
    if options.rows:
        rows = [of_gpus[int(number)] for number in options.rows.split(',')]
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
        for i, row in enumerate(of_model):
            entry = {'model': model, 'plan': row[1]}
            results.append(entry)
            if status != 0:
                entry['failed'] = 'profile'
                continue
            if time.time() - begin > options.seconds:
                entry['left_out'] = True
                continue
            result = work / f'{model}-{i}.json'
            traces = work / f'{model}-{i}.traces'
            command = [options.twinstep, 'validate', '--backend', options.backend, '--model', model_file,
                       '--plan', plans[i], '--data', data, '--profile', profile, '--steps',
                       options.steps, '--drop', '0', '--json', result, '--save-traces', traces,
                       '--tolerance', '0.05', '--tolerance-kind', '0.05', '--tolerance-memory',
                       '0.03']
            if run(command, work / f'{model}-{i}.log') > 1 or not result.exists():
                entry['failed'] = 'validate'
                continue
            parsed = json.loads(result.read_text())
            exposed = {name.removesuffix('_exposed_s'): share(part)
                       for name, part in parsed['breakdown'].items()
                       if name.endswith('_exposed_s')
                       and part['b_s'] > 0.05 * parsed['iteration']['b_s']}
            memory = parsed.get('device_memory', {'driver_bytes': 1, 'predicted_bytes': 1})
            entry.update(
                exposed=exposed,
                predicted_s=parsed['iteration']['a_s'], measured_s=parsed['iteration']['b_s'],
                error=share(parsed['iteration']),
                kinds={kind['name']: share(kind) for kind in parsed['kinds']
                       if kind['b_s'] > 0.01 * parsed['iteration']['b_s']},
                memory_gib=memory['driver_bytes'] / 2**30,
                memory_error=memory['predicted_bytes'] / memory['driver_bytes'] - 1)
            for trace in traces.glob('*.pb'):
                with open(trace, 'rb') as source, gzip.open(f'{trace}.gz', 'wb', 9) as target:
                    shutil.copyfileobj(source, target)
                trace.unlink()
            if options.what_if and options.gpus > 1:
                what_if(options, entry, model_file, plans[i], profile, work / f'{model}-{i}')
            print_row(entry)
            (options.out / 'rows.json').write_text(json.dumps(results, indent=1))
    print_table(results, of_gpus[:RANKED[options.gpus]])


def blocks(text, name):
    """Of a text profile, its top-level messages of that name."""
    return re.findall(rf'^{name} {{\n.*?^}}\n', text, re.MULTILINE | re.DOTALL)


def what_if(options, entry, model_file, plan, profile, stem):
    """Simulates the plan from a one-GPU profile and a table of collectives."""
    one = options.what_if / 'work' / f"{entry['model']}.profile.textproto"
    if not one.exists():
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


def percent(x):
    return '-' if x is None else f'{100 * x:+.1f} %'


def print_row(row):
    kinds = ' '.join(f'{name} {percent(error)}' for name, error in row['kinds'].items())
    print(f"{row['model']:14s}{row['plan']:30s}{1e3 * row['predicted_s']:10.2f}"
          f"{1e3 * row['measured_s']:10.2f}{percent(row['error']):>9s}{row['memory_gib']:8.2f}"
          f"{percent(row['memory_error']):>9s}  {kinds}"
          + ''.join(f'; exposed {name} {percent(error)}' for name, error in row['exposed'].items())
          + (f"; what if {percent(row['what_if'])}" if 'what_if' in row else ''), flush=True)


def print_table(results, candidates):
    print('\nms predicted, measured, error; GiB by the driver, error; busy time of each kind; exposed '
          'communication and copies of more than 5 % of the iteration')
    done = [row for row in results if 'error' in row]
    for row in results:
        if 'error' in row:
            print_row(row)
        else:
            print(row['model'], row['plan'], {k: v for k, v in row.items()
                                              if k not in ('model', 'plan')})
    if not done:
        return
    errors = [abs(row['error']) for row in done]
    kinds = [abs(error) for row in done for error in row['kinds'].values() if error is not None]
    memory = [row['memory_error'] for row in done]
    print(f'{len(done)} rows: iteration median {100 * statistics.median(errors):.2f} %, worst '
          f'{100 * max(errors):.2f} %; kinds median {100 * statistics.median(kinds):.2f} %, worst '
          f'{100 * max(kinds):.2f} %; memory {100 * min(memory):+.2f} to {100 * max(memory):+.2f} %')
    for name in ('exposed', 'what_if'):
        errors = [abs(error) for row in done if name in row
                  for error in (row[name].values() if name == 'exposed' else [row[name]])]
        if errors:
            print(f'{name.replace("_", " ")}: {len(errors)}, median '
                  f'{100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %')
    candidates = {row[:2] for row in candidates}
    ranked = [row for row in done if (row['model'], row['plan']) in candidates]
    wrong = [(a['plan'], b['plan']) for i, a in enumerate(ranked) for b in ranked[i + 1:]
             if max(a['measured_s'], b['measured_s']) > 1.03 * min(a['measured_s'], b['measured_s'])
             and (a['measured_s'] < b['measured_s']) != (a['predicted_s'] < b['predicted_s'])]
    if ranked:
        best = min(ranked, key=lambda row: row['predicted_s'])
        fastest = min(row['measured_s'] for row in ranked)
        print(f"ranking of {len(ranked)} plans: {len(wrong)} pairs in the wrong order {wrong}; the "
              f"plan picked, '{best['plan']}', takes {percent(best['measured_s'] / fastest - 1)} of "
              'the fastest')


main()
