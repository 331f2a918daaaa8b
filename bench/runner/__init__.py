"""The benchmark's runner: it starts servers, loads them, and writes down what it saw."""
