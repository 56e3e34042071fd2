#!/usr/bin/env python3
"""Writes the loss curves that tests/exec/train/reference_curve_test.cc compares the executor with.

    python3 tests/reference/generate_loss_curves.py > tests/reference/loss_curves.txt

Needs NumPy (Debian: python3-numpy). One line a step: model, step, loss.
"""

import math

import numpy

from training import AdamW, Model

STEPS = 20
SEQUENCES = 4
POSITIONS = 32
SEED = 11
WARMUP, PEAK, MINIMUM = 5, 3e-3, 3e-4
DECAY = 0.1

# As in model_zoo/*.textproto; the last number is the norm to clip at.
MODELS = {
    "tiny-gpt": (Model(False, 4, 64, 256, 4, 4, 256, 128, True), 0.0),
    "tiny-llama": (Model(True, 4, 64, 176, 4, 4, 256, 128, False), 0.0),
    "tiny-llama-gqa": (Model(True, 4, 64, 176, 4, 2, 256, 128, False), 1.0),
    "tiny-llama-tied": (Model(True, 2, 64, 176, 4, 2, 250, 128, True), 0.0),
}


def batch(step, vocab):
    """Tokens that repeat themselves enough to be learnt; labels are the tokens that follow."""
    text = numpy.array(
        [[(k * k + 3 * (step * SEQUENCES + row) * k + 5 * row) % 97 for k in range(POSITIONS + 1)]
         for row in range(SEQUENCES)])
    assert text.max() < vocab
    return text[:, :-1], text[:, 1:]


def rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    share = (step - (WARMUP - 1)) / (STEPS - 1 - (WARMUP - 1))
    return MINIMUM + (PEAK - MINIMUM) * (1 + math.cos(math.pi * share)) / 2


def main():
    for name, (model, clip_norm) in MODELS.items():
        weights = model.initial_weights(SEED)
        optimizer = AdamW(0.9, 0.95, 1e-8, DECAY, clip_norm)
        for step in range(STEPS):
            loss = model.loss(weights, *batch(step, model.vocab))
            loss.backward()
            print(f"{name} {step} {loss.data.item():.17g}", flush=True)
            optimizer.step(weights, rate(step))


if __name__ == "__main__":
    main()
