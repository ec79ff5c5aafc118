"""Methods of other people that go wrong, as one module of a package; `test_plugins.py` installs and runs it."""
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
    """SimCSE whose terms are spoilt."""

    def loss_terms(self, batch, encode):
        self.steps = getattr(self, "steps", 0) + 1
        return self.spoil(super().loss_terms(batch, encode))


class NotANumber(Bad):
    name = "bad-nan"

    def spoil(self, terms):
        return {"text": terms["text"] * (float("nan") if self.steps == 3 else 1.0)}


class Vector(Bad):
    name = "bad-vector"

    def spoil(self, terms):
        return {"text": terms["text"] * torch.ones(3)}


class Number(Bad):
    name = "bad-number"

    def spoil(self, terms):
        return {"text": 1.0}


class Undeclared(Bad):
    name = "bad-undeclared"

    def spoil(self, terms):
        return {**terms, "more": terms["text"]}


class Apart(Bad):
    """Its loss has a gradient, but none for the encoder."""

    name = "bad-apart"

    def spoil(self, terms):
        return {"text": torch.zeros((), requires_grad=True) + 1.0}


class Raises(Bad):
    name = "bad-raises"

    def spoil(self, terms):
        raise ValueError("one line\nand\x1b[31m another " + "x" * 5000)


class Quits(Bad):
    name = "bad-quits"

    def spoil(self, terms):
        sys.exit(0)


class Interrupts(Bad):
    name = "bad-interrupts"

    def spoil(self, terms):
        raise KeyboardInterrupt


class Exits(Bad):
    name = "bad-exits"

    def spoil(self, terms):
        os._exit(0)


class Crashes(Bad):
    name = "bad-crashes"

    def spoil(self, terms):
        ctypes.string_at(0)


class Eats(Bad):
    """All the memory that it may have: what it has, and 1 GB more."""

    name = "bad-eats"

    def spoil(self, terms):
        with open("/proc/self/statm") as sizes:
            taken = int(sizes.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + 2**30, resource.RLIM_INFINITY))
        kept = []
        while True:
            kept.append(np.zeros(2**24))


class Sleeps(Bad):
    name = "bad-sleeps"

    def spoil(self, terms):
        time.sleep(3600)


class Meddles(Bad):
    """Ends well, and changes everything in its process that it can."""

    name = "bad-meddles"

    def spoil(self, terms):
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
