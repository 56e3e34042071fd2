"""Tiny GPT and Llama models with AdamW, in NumPy and double precision: an implementation that shares
nothing with the executor but the definition of what is computed.

Weights begin as exec/runtime/initialize.h draws them: a counter over (seed, tensor, layer, row,
column), rounded to single precision.
"""

import math

import numpy

from autograd import Value, concatenate

# sim/graph/task_graph.h: TensorKind, and kNoTag for what the model has once.
KINDS = {
    name: kind
    for kind, name in enumerate((
        "tokens", "labels", "token_embedding", "position_embedding", "norm1_weight", "norm1_bias",
        "qkv_weight", "qkv_bias", "out_weight", "out_bias", "norm2_weight", "norm2_bias",
        "up_weight", "up_bias", "down_weight", "down_bias", "final_norm_weight",
        "final_norm_bias", "head_weight"))
}
NO_LAYER = 0xFFFF
STEP = 0x9E3779B97F4A7C15
MASK = 0xFFFFFFFFFFFFFFFF


def _mix(x):
    """SplitMix64's finaliser, of arrays."""
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def _uniform(bits):
    return ((bits >> numpy.uint64(11)) + numpy.uint64(1)).astype(numpy.float64) * 2.0**-53


def _normal(seed, kind, layer, rows, columns):
    array = lambda x: numpy.array([x & MASK], dtype=numpy.uint64)
    key = _mix(array(int(_mix(array(seed + STEP))[0]) + KINDS[kind] * STEP + layer))
    row = numpy.arange(rows, dtype=numpy.uint64)[:, None]
    column = numpy.arange(columns, dtype=numpy.uint64)[None, :]
    counter = _mix(key + row * numpy.uint64(STEP)) + column
    first = _uniform(_mix(counter * numpy.uint64(STEP) + numpy.uint64(1)))
    second = _uniform(_mix(counter * numpy.uint64(STEP) + numpy.uint64(2)))
    return numpy.sqrt(-2 * numpy.log(first)) * numpy.cos(2 * math.pi * second)


class Model:
    """Sizes as in model_zoo/model.proto; `llama`: RMSNorm, rotary positions, SwiGLU, no biases."""

    def __init__(self, llama, layers, hidden, ffn, heads, kv_heads, vocab, positions, tied):
        self.llama, self.layers, self.hidden, self.ffn = llama, layers, hidden, ffn
        self.heads, self.kv_heads, self.vocab = heads, kv_heads, vocab
        self.positions, self.tied = positions, tied
        self.head_dim = hidden // heads

    def initial_weights(self, seed):
        h = self.hidden
        residual = 0.02 / math.sqrt(2 * self.layers)
        weights = {}

        def draw(kind, layer, rows, columns, deviation=0.02):
            noise = _normal(seed, kind, layer, rows, columns) * deviation
            weights[kind, layer] = Value(noise.astype(numpy.float32))

        def constant(kind, layer, size, value):
            weights[kind, layer] = Value(numpy.full((1, size), value))

        def norm(name, layer):
            constant(name + "_weight", layer, h, 1)
            if not self.llama:
                constant(name + "_bias", layer, h, 0)

        def bias(name, layer, size):
            if not self.llama:
                constant(name + "_bias", layer, size, 0)

        draw("token_embedding", NO_LAYER, self.vocab, h)
        if not self.llama:
            draw("position_embedding", NO_LAYER, self.positions, h)
        for layer in range(self.layers):
            qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
            up = self.ffn * (2 if self.llama else 1)
            norm("norm1", layer)
            draw("qkv_weight", layer, qkv, h)
            bias("qkv", layer, qkv)
            draw("out_weight", layer, h, self.heads * self.head_dim, residual)
            bias("out", layer, h)
            norm("norm2", layer)
            draw("up_weight", layer, up, h)
            bias("up", layer, up)
            draw("down_weight", layer, h, self.ffn, residual)
            bias("down", layer, h)
        norm("final_norm", NO_LAYER)
        if not self.tied:
            draw("head_weight", NO_LAYER, self.vocab, h)
        return weights

    def _norm(self, weights, name, layer, x):
        if self.llama:
            scale = ((x * x).mean(axis=-1) + 1e-5)**-0.5
            return x * scale * weights[name + "_weight", layer]
        centred = x - x.mean(axis=-1)
        scale = ((centred * centred).mean(axis=-1) + 1e-5)**-0.5
        return centred * scale * weights[name + "_weight", layer] + weights[name + "_bias", layer]

    def _linear(self, weights, name, layer, x):
        y = x @ weights[name + "_weight", layer].transpose()
        return y if self.llama else y + weights[name + "_bias", layer]

    def _rotate(self, x):
        """x: [batch, heads, positions, head_dim]; feature j pairs with j + head_dim / 2."""
        half = self.head_dim // 2
        frequency = 10000.0**(-numpy.arange(half) / half)
        angle = numpy.arange(x.shape[2])[:, None] * frequency[None, :]
        cosine, sine = numpy.cos(angle), numpy.sin(angle)
        first, second = x[..., :half], x[..., half:]
        return concatenate((first * cosine - second * sine, second * cosine + first * sine), 3)

    def _attention(self, qkv):
        batch, positions, _ = qkv.shape
        d = self.head_dim

        def heads(begin, count):
            part = qkv[:, :, begin * d:(begin + count) * d]
            return part.reshape(batch, positions, count, d).transpose(0, 2, 1, 3)

        q = heads(0, self.heads)
        k = heads(self.heads, self.kv_heads)
        v = heads(self.heads + self.kv_heads, self.kv_heads)
        if self.llama:
            q, k = self._rotate(q), self._rotate(k)
        shared = numpy.repeat(numpy.arange(self.kv_heads), self.heads // self.kv_heads)
        k, v = k[:, shared], v[:, shared]
        scores = q @ k.transpose(0, 1, 3, 2) * (1 / math.sqrt(d))
        visible = numpy.tril(numpy.ones((positions, positions)))
        weights = (scores - scores.data.max(axis=-1, keepdims=True)).exp() * visible
        out = weights / weights.sum(axis=-1) @ v
        return out.transpose(0, 2, 1, 3).reshape(batch, positions, self.heads * d)

    def _activation(self, up):
        if self.llama:
            gate, linear = up[..., :self.ffn], up[..., self.ffn:]
            return gate / ((-gate).exp() + 1.0) * linear
        inner = (up + up**3.0 * 0.044715) * math.sqrt(2 / math.pi)
        return up * (inner.tanh() + 1.0) * 0.5

    def loss(self, weights, tokens, labels):
        """Mean cross-entropy; tokens and labels: [batch, positions]."""
        positions = tokens.shape[1]
        x = weights["token_embedding", NO_LAYER][tokens]
        if not self.llama:
            x = x + weights["position_embedding", NO_LAYER][numpy.arange(positions)]
        for layer in range(self.layers):
            qkv = self._linear(weights, "qkv", layer, self._norm(weights, "norm1", layer, x))
            x = x + self._linear(weights, "out", layer, self._attention(qkv))
            up = self._linear(weights, "up", layer, self._norm(weights, "norm2", layer, x))
            x = x + self._linear(weights, "down", layer, self._activation(up))
        x = self._norm(weights, "final_norm", NO_LAYER, x)
        head = "token_embedding" if self.tied else "head_weight"
        logits = (x @ weights[head, NO_LAYER].transpose()).reshape(tokens.size, self.vocab)
        logits = logits - logits.data.max(axis=-1, keepdims=True)
        at_label = logits[numpy.arange(tokens.size), labels.reshape(-1)]
        return logits.exp().sum(axis=-1).log().mean() - at_label.mean()


class AdamW:
    """Loshchilov and Hutter, 2019; matrices decay, norms and biases do not."""

    def __init__(self, beta1, beta2, epsilon, decay, clip_norm):
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.decay, self.clip_norm = decay, clip_norm
        self.steps, self.moments = 0, {}

    def step(self, weights, rate):
        self.steps += 1
        scale = 1.0
        if self.clip_norm > 0:
            squares = sum((value.gradient**2).sum() for value in weights.values())
            scale = min(1.0, self.clip_norm / (math.sqrt(squares) + 1e-6))
        for name, value in weights.items():
            m, v = self.moments.get(name, (0.0, 0.0))
            gradient = value.gradient * scale
            m = self.beta1 * m + (1 - self.beta1) * gradient
            v = self.beta2 * v + (1 - self.beta2) * gradient**2
            self.moments[name] = m, v
            decay = self.decay if value.shape[0] > 1 else 0.0
            update = m / (1 - self.beta1**self.steps) / (
                numpy.sqrt(v / (1 - self.beta2**self.steps)) + self.epsilon)
            value.data = value.data - rate * (update + decay * value.data)
            value.gradient = None
