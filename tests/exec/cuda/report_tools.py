"""What validate_report.py and several_gpus.py do alike: commands, data, rows of measured plans."""

import gzip
import json
import random
import shutil
import statistics
import subprocess
import time


def run(command, log):
    """Its exit status; what it prints goes to the file `log`."""
    with open(log, 'w') as file:
        begin = time.time()
        try:
            status = subprocess.run([str(word) for word in command], stdout=file,
                                    stderr=subprocess.STDOUT).returncode
        except OSError as error:
            file.write(f'{error}\n')
            status = 127
        file.write(f'\nexit status {status}, {time.time() - begin:.1f} s\n')
    return status


def write_words(path):
    """A text of some megabytes in which some words are frequent and most are rare."""
    random.seed(1)
    words = [''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=random.randint(1, 9)))
             for _ in range(5000)]
    path.write_text(' '.join(words[int(5000 ** random.random()) - 1] for _ in range(400000)))


class Report:
    """Rows, and in OUT/work the files of the commands that they come from."""

    def __init__(self, options):
        self.options = options
        self.begin = time.time()
        self.work = options.out / 'work'
        self.work.mkdir(parents=True, exist_ok=True)
        self.data = self.work / 'text.txt'
        write_words(self.data)
        self.rows = []

    def is_late(self):
        return time.time() - self.begin > self.options.seconds

    def file(self, name, text):
        path = self.work / name
        path.write_text(text + '\n')
        return path

    def save(self):
        (self.options.out / 'rows.json').write_text(json.dumps(self.rows, indent=1))

    def profile(self, model, plans, profile, log):
        """Exit status of profiling the model for these plans: what several have in common is
        measured once, in each plan's share of the time."""
        return run([self.options.twinstep, 'profile', '--backend', self.options.backend, '--model',
                    model] + [word for plan in plans for word in ('--plan', plan)]
                   + ['--data', self.data, '--seconds', self.options.profile_seconds * len(plans),
                      '--output', profile], log)

    def exit_status(self):
        return int(any('failed' in row or 'what_if_failed' in row for row in self.rows))


def best_plan(twinstep, folder, log, *words):
    """The file, in `folder`, of the best plan that `twinstep rank` finds with these words; None if
    there is none."""
    shutil.rmtree(folder, ignore_errors=True)  # An earlier run's.
    status = run([twinstep, 'rank', *words, '--plans', folder], log)
    return next(folder.glob('*-1.textproto'), None) if status == 0 else None


def measured(path):
    """Of `validate --json`: times, their errors (of all steps' medians), how far steps lie apart,
    and of a GPU its memory."""
    parsed = json.loads(path.read_text())
    iteration, steps = parsed['iteration'], parsed['all_steps']
    least = 0.01 * iteration['b_s']
    kinds = {kind['name']: kind for kind in steps['kinds'] if kind['median_s'] > least}
    exposed = {name.removesuffix('_exposed_s'): part for name, part in steps['exposed'].items()
               if part['median_s'] > 5 * least}
    values = dict(
        predicted_s=iteration['a_s'], measured_s=iteration['b_s'], error=iteration['error'],
        kinds={name: kind['error'] for name, kind in kinds.items()},
        exposed={name: part['error'] for name, part in exposed.items()},
        spread={name: (times['most_s'] - times['least_s']) / times['median_s']
                for name, times in (kinds | exposed).items()})
    if memory := parsed.get('device_memory'):
        values.update(memory_gib=memory['driver_bytes'] / 2**30,
                      memory_error=memory['predicted_bytes'] / memory['driver_bytes'] - 1)
    return values


def validate(twinstep, backend, stem, *words):
    """Runs `twinstep validate` with these words besides, and compresses its traces; what measured()
    says, None where it failed. Files are named after `stem`."""
    result, traces = stem.with_name(f'{stem.name}.json'), stem.with_name(f'{stem.name}.traces')
    result.unlink(missing_ok=True)  # An earlier run's.
    # 1: it has run, and a tolerance is exceeded.
    if run([twinstep, 'validate', '--backend', backend, *words, '--drop', 0, '--json', result,
            '--save-traces', traces], stem.with_name(f'{stem.name}.log')) > 1:
        return None
    if not result.exists():
        return None
    compress(traces)
    return measured(result)


def compress(folder):
    for trace in folder.glob('*.pb'):
        with open(trace, 'rb') as source, gzip.open(f'{trace}.gz', 'wb', 9) as target:
            shutil.copyfileobj(source, target)
        trace.unlink()


def percent(x):
    return '-' if x is None else f'{100 * x:+.1f} %'


def measured_text(row):
    """The columns of a row of measured()."""
    text = (f"{1e3 * row['predicted_s']:10.2f}{1e3 * row['measured_s']:10.2f}"
            f"{percent(row['error']):>9s}")
    if 'memory_gib' in row:
        text += f"{row['memory_gib']:8.2f}{percent(row['memory_error']):>9s}"
    def part(name, error):
        spread = row['spread'][name]
        return f'{name} {percent(error)}' + (f' ~{100 * spread:.0f} %' if spread > 0.05 else '')

    text += '  ' + ' '.join(part(name, error) for name, error in row['kinds'].items())
    return text + ''.join('; exposed ' + part(name, error)
                          for name, error in row['exposed'].items())


MEASURED_COLUMNS = ('ms predicted, measured, error; GiB by the driver, error; busy time of each '
                    'kind; exposed communication and copies of more than 5 % of the iteration; '
                    'medians of all steps, and ~ what these lie apart by, where it is above 5 %')


def print_errors(rows):
    """Medians and worst of rows of measured()."""
    def summary(errors):
        errors = [abs(error) for error in errors if error is not None]
        if not errors:
            return 'none'
        return f'median {100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %'

    print(f'{len(rows)} rows: iteration ' + summary([row['error'] for row in rows]) + '; kinds '
          + summary([error for row in rows for error in row['kinds'].values()]) + '; exposed '
          + summary([error for row in rows for error in row['exposed'].values()]))
    memory = [row['memory_error'] for row in rows if 'memory_error' in row]
    if memory:
        print(f'memory {100 * min(memory):+.2f} to {100 * max(memory):+.2f} %')
    what_if = [row['what_if'] for row in rows if 'what_if' in row]
    if what_if:
        print(f'what if: {len(what_if)}, ' + summary(what_if))


def print_ranking(rows):
    """Whether plans of one model and batch have the order that was predicted."""
    if not rows:
        return
    def in_order(a, b):
        slow, fast = max(a['measured_s'], b['measured_s']), min(a['measured_s'], b['measured_s'])
        return slow <= 1.03 * fast or (
            (a['measured_s'] < b['measured_s']) == (a['predicted_s'] < b['predicted_s']))

    wrong = [(a['plan'], b['plan']) for i, a in enumerate(rows) for b in rows[i + 1:]
             if not in_order(a, b)]
    best = min(rows, key=lambda row: row['predicted_s'])
    fastest = min(row['measured_s'] for row in rows)
    print(f"ranking of {len(rows)} plans: {len(wrong)} pairs in the wrong order {wrong[:5]}; the "
          f"plan picked, '{best['plan']}', takes {percent(best['measured_s'] / fastest - 1)} of the "
          'fastest')


def print_summary(rows, is_ranked):
    """Of the measured ones among the rows: errors, and the order of those that are ranked."""
    done = [row for row in rows if 'error' in row]
    if done:
        print_errors(done)
    print_ranking([row for row in done if is_ranked(row)])
