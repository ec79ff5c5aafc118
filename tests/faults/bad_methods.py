"""Methods of other people that go wrong, as one module of a package; `test_plugins.py` installs and
runs it.

Each is SimCSE whose terms are spoilt by a function of this module: `nan` makes the method
`bad-nan`, an object named `bad_nan`. The functions get the method, which counts its steps, and the
terms.
"""
# ruff: noqa: NPY002, PTH103, PTH123, T201 - they do what they should not

import ctypes
import os
import random
import resource
import sys
import time

import numpy as np
import torch
from harness_methods.simcse import SimCSE


class Bad(SimCSE):
    def loss_terms(self, batch, encode):
        self.steps = getattr(self, "steps", 0) + 1
        return self.spoil(super().loss_terms(batch, encode))


def nan(self, terms):
    return {"text": terms["text"] * (float("nan") if self.steps == 3 else 1.0)}


def vector(self, terms):
    return {"text": terms["text"] * torch.ones(3)}


def number(self, terms):
    return {"text": 1.0}


def undeclared(self, terms):
    return {**terms, "more": terms["text"]}


def apart(self, terms):
    """A loss that has a gradient, but none for the encoder."""
    return {"text": torch.zeros((), requires_grad=True) + 1.0}


def raises(self, terms):
    raise ValueError("one line\nand\x1b[31m another " + "x" * 5000)


def quits(self, terms):
    sys.exit(0)


def interrupts(self, terms):
    raise KeyboardInterrupt


def leaves(self, terms):
    """What a library in C does that gives up."""
    ctypes.CDLL(None).exit(0)


def crashes(self, terms):
    ctypes.string_at(0)


def eats(self, terms):
    """All the memory that it may have: what it has, and 1 GB more."""
    with open("/proc/self/statm") as sizes:
        taken = int(sizes.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**30, resource.RLIM_INFINITY))
    kept = []
    while True:
        kept.append(np.zeros(2**24))


def sleeps(self, terms):
    time.sleep(3600)


def meddles(self, terms):
    """End well, and change everything in this process that it can."""
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    torch.set_num_threads(2)
    os.environ["OMP_NUM_THREADS"] = "7"
    if self.steps == 1:
        os.makedirs("elsewhere")
        os.chdir("elsewhere")
    print("a plug-in prints")
    return terms


ALL = (
    *(nan, vector, number, undeclared, apart, raises, quits, interrupts, leaves, crashes, eats),
    *(sleeps, meddles),
)
for spoil in ALL:
    about = {"name": f"bad-{spoil.__name__}", "spoil": spoil, "__module__": __name__}
    globals()[f"bad_{spoil.__name__}"] = type(f"bad_{spoil.__name__}", (Bad,), about)
