# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mmgeom.datasets.text_pair_dataset import TextPairDataset

NAME = 'dataset_converters/embed_text_pairs'
HEADER = 'index\tsentence1\tgenre\tsentence2\tscore'
LINES = [
    HEADER,
    '0\tA "man.\tnews\tA dog.\t1.4',
    '1\tA dog.\tnews\tNaïve cats\t5',
]


@pytest.fixture(scope='module')
def converter(script):
    return script(NAME)


def write(folder, lines=LINES, name='train_new.tsv'):
    path = folder / name
    path.write_text('\n'.join([*lines, '']), encoding='utf-8')
    return path


class Encoder:
    """Length and number of spaces, and a list of what was asked."""

    def __init__(self):
        self.seen = []

    def __call__(self, sentences):
        self.seen += sentences
        return np.array([[len(s), s.count(' ')] for s in sentences])


def test_embed_file(converter, tmp_path):
    encode = Encoder()
    out = tmp_path / 'new' / 'x.npz'
    assert converter.embed_file(write(tmp_path), out, encode) == (2, 2)
    # A sentence that occurs twice is encoded once.
    assert encode.seen == ['A "man.', 'A dog.', 'Naïve cats']
    dataset = TextPairDataset('x.npz', data_root=str(out.parent))
    assert dataset.get_gt_values().tolist() == [1.4, 5]
    assert dataset.inputs.tolist() == [
        [7, 1, 6, 1, 1, 0, 42, 1],
        [6, 1, 10, 1, 4, 0, 60, 1],
    ]


@pytest.mark.parametrize(
    ('line', 'message'),
    [
        ('2\tone\tnews\ttwo', 'line 4 has 4 cells but the header 5'),
        ('2\tone\tnews\ttwo\t1\tmore', 'line 4 has 6 cells but the header 5'),
        ('2\t\tnews\ttwo\t1', 'line 4 has an empty sentence'),
        ('2\tone\tnews\t \t1', 'line 4 has an empty sentence'),
        ('2\tone\tnews\ttwo\thigh', "line 4 has the score 'high'"),
        ('2\tone\tnews\ttwo\t', "line 4 has the score ''"),
        ('2\tone\tnews\ttwo\tnan', "line 4 has the score 'nan'"),
    ],
)
def test_bad_line(converter, tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        converter.read_pairs(write(tmp_path, [*LINES, line]))


@pytest.mark.parametrize(
    ('lines', 'message'),
    [
        ([HEADER], 'holds no samples'),
        (['a\tsentence1', '1\tx'], r"not \['sentence2', 'score'\]: give a"),
    ],
)
def test_bad_file(converter, tmp_path, lines, message):
    with pytest.raises(ValueError, match=message):
        converter.read_pairs(write(tmp_path, lines))


def test_blank_lines_do_not_matter(converter, tmp_path):
    path = write(tmp_path, [*LINES[:2], '', LINES[2], ''])
    assert len(converter.read_pairs(path)[2]) == 2


@pytest.mark.parametrize(
    ('encode', 'message'),
    [
        (lambda s: np.zeros((len(s) + 1, 2)), r'\(4, 2\) of 3 sentences'),
        (lambda s: np.zeros(len(s)), r'shape \(3,\) of 3 sentences'),
        (lambda s: np.full((len(s), 2), np.nan), 'sentences row 0 has'),
    ],
)
def test_bad_encoder(converter, tmp_path, encode, message):
    with pytest.raises(ValueError, match=message):
        converter.embed_file(write(tmp_path), tmp_path / 'x.npz', encode)
    assert not (tmp_path / 'x.npz').exists()


def fake_package(monkeypatch):
    """Stand in for sentence-transformers; returns what it is asked."""
    asked = []

    class SentenceTransformer:
        def __init__(self, model):
            asked.append(model)

        def encode(self, sentences, batch_size):
            asked.append(batch_size)
            return Encoder()(sentences)

    package = SimpleNamespace(SentenceTransformer=SentenceTransformer)
    monkeypatch.setitem(sys.modules, 'sentence_transformers', package)
    return asked


def test_command(tool, tmp_path, monkeypatch, capsys):
    asked = fake_package(monkeypatch)
    files = [write(tmp_path, name=f'{name}.tsv') for name in ('a', 'b')]
    tool(
        NAME,
        *files,
        *('--out-dir', 'out', '--model', 'small', '--batch-size', 7),
    )
    assert asked == ['small', 7, 7]
    assert sorted(path.name for path in (tmp_path / 'out').iterdir()) == [
        'a.npz',
        'b.npz',
    ]
    assert 'a.npz: 2 pairs, 2 numbers a sentence' in capsys.readouterr().out


def test_command_says_what_is_wrong(script, tmp_path, monkeypatch, capsys):
    module = script(NAME)
    words = ['x.py', str(tmp_path / 'no.tsv'), '--out-dir', str(tmp_path)]
    monkeypatch.setattr(sys, 'argv', words)
    monkeypatch.setitem(sys.modules, 'sentence_transformers', None)
    assert module.main() == 1
    error = capsys.readouterr().err
    assert error.startswith('error: Encoding sentences needs the package ')
    assert '`pip install sentence-transformers`' in error
    fake_package(monkeypatch)
    assert module.main() == 1
    error = capsys.readouterr().err
    assert 'no.tsv' in error
    assert 'does not exist: correct the path' in error
