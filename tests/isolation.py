# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Runs in one process that do not see each other."""

import contextlib
import os
import random
from collections.abc import Iterator

import numpy as np
import torch
from mmengine.utils import ManagerMixin


def _managers(cls: type = ManagerMixin) -> Iterator[type]:
    for child in cls.__subclasses__():
        yield child
        yield from _managers(child)


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Give back what runners leave behind in the process.

    These are mmengine's named instances, the global random states, and
    environment variables.
    """
    named = {cls: dict(cls._instance_dict) for cls in _managers()}
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    folder, environment = os.getcwd(), dict(os.environ)
    try:
        yield
    finally:
        os.chdir(folder)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        for cls in _managers():
            before = named.get(cls, {})
            for name, instance in list(cls._instance_dict.items()):
                if before.get(name) is not instance:
                    for handler in getattr(instance, 'handlers', []):
                        handler.close()
            cls._instance_dict.clear()
            cls._instance_dict.update(before)
