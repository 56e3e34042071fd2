#!/usr/bin/env python3
"""Profiles models and validates plans of them on this machine's GPU; prints a table.

    validate_report.py TWINSTEP OUT [--seconds S] [--only SUBSTRING] [--rows N,N] [--quick]

Models are profiled once each, for all their plans; then each pair of model and plan is simulated
and trained by `twinstep validate`. Rows that would begin after S seconds are left out, and said to
be. OUT gets what each command printed, the profiles, and of every row JSON and compressed traces.
"""

import argparse
import gzip
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import time

GPT = 'family: GPT hidden_size: {h} ffn_hidden_size: {f} layers: {l} attention_heads: {a} ' \
      'vocab_size: 50257 max_sequence_length: 1024'
LLAMA = 'family: LLAMA hidden_size: {h} ffn_hidden_size: {f} layers: {l} attention_heads: {a} ' \
        'vocab_size: 32000 max_sequence_length: 1024'
MODELS = {
    'gpt2-0.35b': GPT.format(h=1024, f=4096, l=24, a=16),
    'llama-1.3b': LLAMA.format(h=2048, f=5504, l=24, a=16),
    'gpt2-2.7b': GPT.format(h=2560, f=10240, l=32, a=32),
    'llama-6.7b': LLAMA.format(h=4096, f=11008, l=32, a=32),
    'llama-13b-20l': LLAMA.format(h=5120, f=13824, l=20, a=40),
}
# Model, name of the plan, plan (fields of sim/plan/plan.proto). The first eight are of one model and
# batch: they are ranked.
ROWS = [
    ('llama-1.3b', 'plain', 'micro_batch: 32 global_batch: 32'),
    ('llama-1.3b', 'balanced', 'micro_batch: 32 global_batch: 32 recompute: RECOMPUTE_BALANCED'),
    ('llama-1.3b', 'checkpoint', 'micro_batch: 32 global_batch: 32 recompute: RECOMPUTE_FULL'),
    ('llama-1.3b', '4 micro-batches', 'micro_batch: 8 global_batch: 32'),
    ('llama-1.3b', 'chunks, all on GPU',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 26 checkpointed_blocks: 12'),
    ('llama-1.3b', 'chunks, CPU Adam, checkpoint',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 4 chunk_buffers: 3 checkpointed_blocks: 20'),
    ('llama-1.3b', 'chunks, CPU Adam, swap',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 14 chunk_buffers: 3 swapped_blocks: 6 '
     'checkpointed_blocks: 12'),
    ('llama-1.3b', 'swap', 'micro_batch: 32 global_batch: 32 swapped_blocks: 4'),
    ('llama-1.3b', 'small batch', 'micro_batch: 4 global_batch: 4'),
    ('gpt2-0.35b', 'plain', 'micro_batch: 32 global_batch: 64'),
    ('gpt2-0.35b', 'small batch', 'micro_batch: 4 global_batch: 16'),
    ('gpt2-0.35b', 'chunks, CPU Adam',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 6 chunk_buffers: 4'),
    ('llama-6.7b', 'plain', 'micro_batch: 4 global_batch: 8'),
    ('llama-6.7b', 'chunks, CPU Adam, checkpoint',
     'micro_batch: 16 global_batch: 16 persistent_chunks: 28 chunk_buffers: 3 checkpointed_blocks: 32'),
    ('llama-13b-20l', 'checkpoint', 'micro_batch: 4 global_batch: 4 recompute: RECOMPUTE_FULL'),
    ('llama-13b-20l', 'chunks, CPU Adam, balanced',
     'micro_batch: 8 global_batch: 8 recompute: RECOMPUTE_BALANCED persistent_chunks: 18 '
     'chunk_buffers: 3'),
    ('gpt2-2.7b', 'plain', 'micro_batch: 4 global_batch: 16'),
    ('gpt2-2.7b', 'chunks, CPU Adam',
     'micro_batch: 8 global_batch: 8 persistent_chunks: 10 chunk_buffers: 3 checkpointed_blocks: 16'),
]
QUICK = {('gpt2-0.35b', 'small batch'), ('llama-1.3b', 'plain'), ('llama-1.3b', 'swap')}
RANKED = 8  # Of the first rows.


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
    parser.add_argument('--seconds', type=float, default=480)
    parser.add_argument('--only', default='')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--rows', help='numbers of rows, from 0, with commas between them')
    parser.add_argument('--steps', default='7')
    parser.add_argument('--profile-seconds', type=float, default=6, help='of each plan')
    options = parser.parse_args()
    begin = time.time()
    work = options.out / 'work'
    work.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    words = [''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=random.randint(1, 9)))
             for _ in range(5000)]
    data = work / 'text.txt'
    data.write_text(' '.join(words[int(5000 ** random.random()) - 1] for _ in range(400000)))

    rows = [row for row in ROWS if (not options.quick or row[:2] in QUICK)
            and options.only in f'{row[0]} {row[1]}']
    if options.rows:
        rows = [ROWS[int(number)] for number in options.rows.split(',')]
    results = []
    for model in dict.fromkeys(row[0] for row in rows):
        of_model = [row for row in rows if row[0] == model]
        if time.time() - begin > options.seconds:
            results += [{'model': model, 'plan': row[1], 'left_out': True} for row in of_model]
            continue
        model_file = work / f'{model}.textproto'
        model_file.write_text(f'name: "{model}" {MODELS[model]}')
        plans = []
        for i, row in enumerate(of_model):
            plan_file = work / f'{model}-{i}.plan.textproto'
            plan_file.write_text(row[2] + ' sequence_length: 1024\n')
            plans.append(plan_file)
        profile = work / f'{model}.profile.textproto'
        # What several plans have in common is measured once, in each plan's share of the time.
        seconds = options.profile_seconds * len(plans)
        status = run([options.twinstep, 'profile', '--backend', 'cuda', '--model', model_file]
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
            command = [options.twinstep, 'validate', '--backend', 'cuda', '--model', model_file,
                       '--plan', plans[i], '--data', data, '--profile', profile, '--steps',
                       options.steps, '--drop', '0', '--json', result, '--save-traces', traces,
                       '--tolerance', '0.05', '--tolerance-kind', '0.05', '--tolerance-memory',
                       '0.03']
            if run(command, work / f'{model}-{i}.log') > 1 or not result.exists():
                entry['failed'] = 'validate'
                continue
            parsed = json.loads(result.read_text())
            memory = parsed.get('device_memory')
            entry.update(
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
            print_row(entry)
            (options.out / 'rows.json').write_text(json.dumps(results, indent=1))
    print_table(results)


def percent(x):
    return '-' if x is None else f'{100 * x:+.1f} %'


def print_row(row):
    kinds = ' '.join(f'{name} {percent(error)}' for name, error in row['kinds'].items())
    print(f"{row['model']:14s}{row['plan']:30s}{1e3 * row['predicted_s']:10.2f}"
          f"{1e3 * row['measured_s']:10.2f}{percent(row['error']):>9s}{row['memory_gib']:8.2f}"
          f"{percent(row['memory_error']):>9s}  {kinds}", flush=True)


def print_table(results):
    print('\nms predicted, measured, error; GiB by the driver, error; busy time of each kind')
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
    candidates = {row[:2] for row in ROWS[:RANKED]}
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
