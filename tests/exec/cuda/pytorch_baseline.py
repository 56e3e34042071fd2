#!/usr/bin/env python3
"""Times PyTorch on the Llama-shaped models of the benchmark: eager, fp32 weights, gradients and
AdamW states, bf16 autocast, fused AdamW, scaled_dot_product_attention.

    pytorch_baseline.py HIDDEN LAYERS FFN HEADS VOCABULARY SEQUENCE MICRO_BATCH [STEPS]

Prints one line: seconds of an iteration, tokens/s, peak GiB.
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, ffn, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cosine, sine):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, -1).unbind(2)

        def rotate(y):
            first, second = y.chunk(2, dim=-1)
            return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

        q, k, v = (y.transpose(1, 2) for y in (rotate(q), rotate(k), v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, hidden, layers, ffn, heads, vocabulary, sequence):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.blocks = nn.ModuleList(Block(hidden, ffn, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        half = hidden // heads // 2
        frequency = 10000.0 ** (-torch.arange(half) / half)
        angle = torch.arange(sequence)[:, None] * frequency
        self.register_buffer("cosine", angle.cos()[None, :, None, :].bfloat16())
        self.register_buffer("sine", angle.sin()[None, :, None, :].bfloat16())

    def forward(self, tokens, labels):
        x = self.embedding(tokens).bfloat16()
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    hidden, layers, ffn, heads, vocabulary, sequence, batch = map(int, sys.argv[1:8])
    steps = int(sys.argv[8]) if len(sys.argv) > 8 else 8
    with torch.device("cuda"):
        model = Llama(hidden, layers, ffn, heads, vocabulary, sequence)
        tokens = torch.randint(vocabulary, (batch, sequence))
        labels = torch.randint(vocabulary, (batch, sequence))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.time()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    seconds = (time.time() - begin) / steps
    print(f"{seconds:.4f} {batch * sequence / seconds:.0f} "
          f"{torch.cuda.max_memory_allocated() / 2**30:.1f}")


if __name__ == "__main__":
    main()
