"""Reverse-mode differentiation over NumPy arrays in double precision: what the reference needs, no
more. A Value remembers how it was made; backward() walks back from a scalar.

    w = Value(numpy.ones((2, 3)))
    loss = (x @ w.transpose()).exp().mean()
    loss.backward()
    w.gradient  # d loss / d w
"""

import numpy


def _fit(gradient, shape):
    """Sums over the axes along which an operand was broadcast."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


class Value:
    def __init__(self, data, sources=()):
        self.data = numpy.asarray(data, dtype=numpy.float64)
        self.gradient = None
        self._sources = sources  # (Value, gradient of this -> gradient of the source)

    @property
    def shape(self):
        return self.data.shape

    def __add__(self, other):
        other = _value(other)
        return Value(self.data + other.data, ((self, lambda g: g), (other, lambda g: g)))

    def __mul__(self, other):
        other = _value(other)
        return Value(
            self.data * other.data,
            ((self, lambda g: g * other.data), (other, lambda g: g * self.data)))

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -_value(other)

    def __truediv__(self, other):
        return self * _value(other)**-1.0

    def __pow__(self, power):
        return Value(self.data**power, ((self, lambda g: g * power * self.data**(power - 1)),))

    def __matmul__(self, other):
        return Value(
            self.data @ other.data,
            ((self, lambda g: g @ other.data.swapaxes(-1, -2)),
             (other, lambda g: self.data.swapaxes(-1, -2) @ g)))

    def exp(self):
        result = numpy.exp(self.data)
        return Value(result, ((self, lambda g: g * result),))

    def log(self):
        return Value(numpy.log(self.data), ((self, lambda g: g / self.data),))

    def tanh(self):
        result = numpy.tanh(self.data)
        return Value(result, ((self, lambda g: g * (1 - result * result)),))

    def sum(self, axis=None):
        """Summed axes stay, with size 1."""
        return Value(
            self.data.sum(axis=axis, keepdims=True),
            ((self, lambda g: numpy.broadcast_to(g, self.shape)),))

    def mean(self, axis=None):
        total = self.sum(axis)
        return total * (total.data.size / self.data.size)

    def reshape(self, *shape):
        return Value(self.data.reshape(shape), ((self, lambda g: g.reshape(self.shape)),))

    def transpose(self, *axes):
        axes = axes or tuple(reversed(range(self.data.ndim)))
        inverse = numpy.argsort(axes)
        return Value(self.data.transpose(axes), ((self, lambda g: g.transpose(inverse)),))

    def __getitem__(self, index):
        def spread(g):
            whole = numpy.zeros(self.shape)
            numpy.add.at(whole, index, g)
            return whole

        return Value(self.data[index], ((self, spread),))

    def backward(self):
        order, seen = [], set()
        stack = [(self, False)]
        while stack:
            value, done = stack.pop()
            if done:
                order.append(value)
            elif id(value) not in seen:
                seen.add(id(value))
                stack.append((value, True))
                stack.extend((source, False) for source, _ in value._sources)
        self.gradient = numpy.ones(self.shape)
        for value in reversed(order):
            for source, pull in value._sources:
                part = _fit(pull(value.gradient), source.shape)
                source.gradient = part if source.gradient is None else source.gradient + part


def concatenate(values, axis):
    ends = numpy.cumsum([value.shape[axis] for value in values])
    begins = ends - [value.shape[axis] for value in values]

    def cut(begin, end):
        def pull(g):
            return numpy.take(g, range(begin, end), axis=axis)

        return pull

    return Value(
        numpy.concatenate([value.data for value in values], axis=axis),
        tuple((value, cut(begin, end)) for value, begin, end in zip(values, begins, ends)))


def _value(x):
    return x if isinstance(x, Value) else Value(x)
