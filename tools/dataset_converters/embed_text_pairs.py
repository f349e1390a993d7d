# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Encode the sentence pairs of STS-B-DIR once, for mmgeom.TextPairDataset."""

import argparse
import csv
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mmgeom.datasets.checks import (
    require_module,
    require_path,
    require_samples,
)
from mmgeom.datasets.row_dataset import require_finite

COLUMNS = ('sentence1', 'sentence2', 'score')
Encoder = Callable[[list[str]], np.ndarray]


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description='Encode sentence pairs with a frozen model of '
        'sentence-transformers and write a .npz file beside each name, with '
        'the embeddings u and v of both sentences and the scores.'
    )
    parser.add_argument(
        'tsv',
        nargs='+',
        type=Path,
        help='tab-separated files with a header and the columns sentence1, '
        'sentence2 and score',
    )
    parser.add_argument(
        '--out-dir',
        type=Path,
        required=True,
        help='folder to write to; train_new.tsv becomes train_new.npz',
    )
    parser.add_argument(
        '--model',
        default='sentence-transformers/all-MiniLM-L6-v2',
        help='name or folder of a model; its embeddings have e numbers, so '
        'the model to train has in_channels=4e (default: %(default)s, '
        'e=384)',
    )
    parser.add_argument(
        '--batch-size',
        type=int,
        default=64,
        help='sentences encoded at once (default: %(default)s)',
    )
    return parser.parse_args()


def load_encoder(model: str, batch_size: int) -> Encoder:
    """Load a model of sentence-transformers.

    Args:
        model (str): Its name or folder.
        batch_size (int): Sentences encoded at once.

    Returns:
        Encoder: From sentences to an array of one row each.

    Raises:
        ImportError: When sentence-transformers is not installed.
    """
    package = require_module(
        'sentence_transformers', 'sentence-transformers', 'Encoding sentences'
    )
    encoder = package.SentenceTransformer(model)

    def encode(sentences: list[str]) -> np.ndarray:
        return encoder.encode(sentences, batch_size=batch_size)

    return encode


def read_pairs(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Read a file of sentence pairs.

    Args:
        path (Path): Tab-separated, without quoting.

    Returns:
        tuple[list[str], list[str], np.ndarray]: First sentences, second
        sentences, and scores, float64.

    Raises:
        FileNotFoundError: When the file is not there.
        ValueError: When a column is missing, a line has more or fewer cells
            than the header, a sentence is empty or a score is not a finite
            number (the message names the line), or there are no pairs.
    """
    require_path(str(path), 'correct the path of the .tsv file')
    first, second, scores = [], [], []
    with path.open(encoding='utf-8-sig', newline='') as file:
        lines = csv.reader(file, delimiter='\t', quoting=csv.QUOTE_NONE)
        header = next(lines, [])
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise ValueError(
                f"'{path}' has the columns {header}, not {missing}: give a "
                'tab-separated file with a header.'
            )
        places = [header.index(name) for name in COLUMNS]
        for cells in lines:
            if not cells:
                continue  # a blank line
            where = f"'{path}' line {lines.line_num}"
            if len(cells) != len(header):
                raise ValueError(
                    f'{where} has {len(cells)} cells but the header '
                    f'{len(header)}: correct or remove the line.'
                )
            one, two, score = (cells[place].strip() for place in places)
            if not one or not two:
                raise ValueError(
                    f'{where} has an empty sentence: correct or remove the '
                    'line.'
                )
            first.append(one)
            second.append(two)
            scores.append(_score(score, where))
    require_samples(len(scores), f"'{path}'")
    return first, second, np.array(scores)


def embed_file(path: Path, out: Path, encode: Encoder) -> tuple[int, int]:
    """Encode the pairs of a file and write them.

    A sentence that occurs more than once is encoded once.

    Args:
        path (Path): The ``.tsv`` file.
        out (Path): The ``.npz`` file.
        encode (Encoder): From sentences to an array of one row each.

    Returns:
        tuple[int, int]: Number of pairs and size of an embedding.

    Raises:
        ValueError: When the encoder does not give one finite row a sentence.
    """
    first, second, scores = read_pairs(path)
    rows = {
        text: row for row, text in enumerate(dict.fromkeys(first + second))
    }
    table = np.asarray(encode(list(rows)), dtype=np.float32)
    if table.ndim != 2 or len(table) != len(rows):
        raise ValueError(
            f'the encoder made an array of shape {table.shape} of '
            f'{len(rows)} sentences: it must give one row for each.'
        )
    require_finite('the encoded sentences', embeddings=table)
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        out,
        u=table[[rows[text] for text in first]],
        v=table[[rows[text] for text in second]],
        score=scores,
    )
    return len(scores), table.shape[1]


def main() -> int:
    """Encode each file."""
    args = parse_args()
    try:
        encode = load_encoder(args.model, args.batch_size)
        for path in args.tsv:
            out = args.out_dir / f'{path.stem}.npz'
            count, size = embed_file(path, out, encode)
            print(f'{out}: {count} pairs, {size} numbers a sentence')
    # Bad data or no such model: one sentence, no traceback.
    except (ImportError, OSError, ValueError) as error:
        print(f'error: {error}', file=sys.stderr)
        return 1
    return 0


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ValueError(
            f'{where} has the score {text!r}, which is not a finite number: '
            'correct or remove the line.'
        )
    return score


if __name__ == '__main__':
    sys.exit(main())
