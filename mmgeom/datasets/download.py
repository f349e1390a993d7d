# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Download of data sets whose owners allow it, once for all ranks."""

from collections.abc import Callable

from mmengine import dist


def download_on_main_process(
    fetch: Callable[[], object], name: str, folder: str, page: str
) -> None:
    """Let rank 0 download while the other ranks wait.

    All ranks must call it, also those that see the files already: deciding
    by the files first would let a late rank miss the barrier. A failed
    download releases the other ranks before it raises, so that no process
    hangs.

    Args:
        fetch (Callable): Downloads what is not there yet.
        name (str): Name of the dataset, for the message.
        folder (str): Folder of the files, for the message.
        page (str): Where the files can be had by hand, for the message.

    Raises:
        RuntimeError: When the download fails.
    """
    try:
        if dist.is_main_process():
            fetch()
    except (OSError, RuntimeError) as error:
        raise RuntimeError(
            f"{name} could not be downloaded into '{folder}' ({error}): "
            f'get it by hand from {page}.'
        ) from error
    finally:
        dist.barrier()
