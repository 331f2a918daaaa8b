"""What a person sees while the benchmark runs."""

import os
import sys
import time

WIDTH = 100


class Screen:
    def __init__(self, stream=sys.stdout):
        self.stream = stream
        self.is_terminal = stream.isatty()
        colours = self.is_terminal and not os.environ.get("NO_COLOR")
        self.bold, self.green, self.red, self.dim, self.plain = (
            ("\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m") if colours else ("",) * 5
        )

    def line(self, text=""):
        self.clear()
        print(text, file=self.stream, flush=True)

    def title(self, text):
        self.line(f"\n{self.bold}{text}{self.plain}")

    def passing(self, text):
        """A line that the next one replaces. Where nothing can be replaced, it is left out."""
        if self.is_terminal:
            self.stream.write(f"\r\033[K{self.dim}{text[:WIDTH]}{self.plain}")
            self.stream.flush()

    def clear(self):
        if self.is_terminal:
            self.stream.write("\r\033[K")


class Clock:
    """How much is left, judged by what was expected and how long things really took."""

    def __init__(self, expected_seconds):
        self.expected, self.finished, self.began = expected_seconds, 0.0, time.monotonic()

    def finish(self, expected_seconds):
        self.finished += expected_seconds

    def left(self):
        spent = time.monotonic() - self.began
        # Early on there is nothing to judge by.
        pace = spent / self.finished if self.finished > 30 else 1.0
        seconds = (self.expected - self.finished) * pace
        return in_words(max(seconds, 0))


def in_words(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
