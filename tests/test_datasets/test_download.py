# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest

from mmgeom.datasets import download


@pytest.fixture
def events(monkeypatch):
    """Record what happens on a process of the rank the test chooses."""
    events = []
    monkeypatch.setattr(
        download.dist, 'barrier', lambda: events.append('barrier')
    )
    return events


def run(monkeypatch, events, main, error=None):
    monkeypatch.setattr(download.dist, 'is_main_process', lambda: main)

    def fetch():
        events.append('fetch')
        if error is not None:
            raise error

    download.download_on_main_process(fetch, 'X', 'data/x', 'https://x.org')


def test_main_process_downloads_before_the_barrier(monkeypatch, events):
    run(monkeypatch, events, main=True)
    assert events == ['fetch', 'barrier']


def test_other_processes_only_wait(monkeypatch, events):
    run(monkeypatch, events, main=False)
    assert events == ['barrier']


@pytest.mark.parametrize('error', [OSError('no route'), RuntimeError('md5')])
def test_failure_releases_the_others(monkeypatch, events, error):
    message = (
        f"X could not be downloaded into 'data/x' \\({error}\\): get it by "
        'hand from https://x.org'
    )
    with pytest.raises(RuntimeError, match=message):
        run(monkeypatch, events, main=True, error=error)
    assert events == ['fetch', 'barrier']
