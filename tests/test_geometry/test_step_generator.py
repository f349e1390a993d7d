# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Generators of steps that a resumed run continues."""

import copy

import pytest
import torch

from mmgeom.geometry import StepGenerator


def draw(generators, number=1):
    return [
        torch.rand(4, generator=generators('cpu')).tolist()
        for _ in range(number)
    ]


def test_steps_differ_and_depend_on_the_seed_only():
    first = draw(StepGenerator(3), 50)
    assert first == draw(StepGenerator(3), 50)
    every = first + draw(StepGenerator(4), 50) + draw(StepGenerator(0), 50)
    assert len({tuple(numbers) for numbers in every}) == 150


def test_numbers_look_uniform():
    numbers = torch.tensor(draw(StepGenerator(0), 2000))
    assert numbers.mean() == pytest.approx(0.5, abs=0.02)
    # Of successive steps, too.
    pairs = torch.stack([numbers[:-1, 0], numbers[1:, 0]])
    assert torch.corrcoef(pairs)[0, 1].abs() < 0.1


def test_loaded_state_goes_on():
    generators = StepGenerator(1)
    draw(generators, 3)
    other = StepGenerator(1)
    draw(other, 7)
    other.load_state_dict(copy.deepcopy(generators.state_dict()))
    assert other.steps_taken == 3
    assert draw(other, 2) == draw(generators, 2)
    assert other.steps_taken == 5


def test_reset_and_go_to():
    generators = StepGenerator(1)
    numbers = draw(generators, 5)
    generators.go_to(2)
    assert generators.step == 2
    assert draw(generators, 3) == numbers[2:]
    generators.reset()
    assert generators.step == 0
    assert draw(generators, 5) == numbers


def test_the_global_generator_is_not_touched():
    state = torch.get_rng_state()
    draw(StepGenerator(1), 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_negative_seed():
    with pytest.raises(ValueError, match='must not be negative, got -1'):
        StepGenerator(-1)
