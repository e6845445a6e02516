"""Masses of counts in sixty digits: what the library's log masses are held against."""

from decimal import Decimal, getcontext

getcontext().prec = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
BERNOULLI = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)]
BERNOULLI += [(43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730)]


def log_gamma(x):
    """log Gamma(x) by Stirling's series, far out; error below 1e-30."""
    x, below = Decimal(x), Decimal(0)
    while x < 100:
        below += x.ln()
        x += 1
    series = (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2
    for n, (top, bottom) in enumerate(BERNOULLI, start=1):
        series += Decimal(top) / Decimal(bottom) / (2 * n * (2 * n - 1)) / x ** (2 * n - 1)
    return series - below


def log_poisson(x, mean):
    x, mean = Decimal(x), Decimal(mean)
    return x * mean.ln() - mean - log_gamma(x + 1)


def log_negative_binomial(x, shape, rate, exposure):
    x, A, B, e = map(Decimal, (x, shape, rate, exposure))
    mass = log_gamma(A + x) - log_gamma(A) - log_gamma(x + 1)
    return mass + A * (B / (B + e)).ln() + x * (e / (B + e)).ln()


def log_half(y, total):
    y, total = Decimal(y), Decimal(total)
    ways = log_gamma(total + 1) - log_gamma(y + 1) - log_gamma(total - y + 1)
    return ways - total * Decimal(2).ln()
