"""Figures as people read them."""


def figure(value):
    """Any number, with as many digits as matter."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def per_second(value):
    return f"{value:,.0f} /s"


def microseconds(value):
    if value >= 10_000:
        return milliseconds(value / 1000)
    return f"{value:,.0f} µs" if value >= 100 else f"{value:.1f} µs"


def milliseconds(value):
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def count(value):
    return f"{value:,.0f}"


def kilobytes(value):
    return f"{value:,.0f} KB" if value >= 100 else f"{value:.2f} KB"


def megabytes(kilobytes_held):
    return f"{kilobytes_held / 1024:.1f} MB"


def ratio(value):
    return f"{value:.2f}x" if value >= 0.1 else f"{value:.3f}x"
