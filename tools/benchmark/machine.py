# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What a benchmark ran on, without names."""

import os
import platform
from pathlib import Path

import torch


def describe_machine(
    threads: int | None = None, device: str | None = None
) -> dict[str, str]:
    """Processor, memory, and versions.

    Args:
        threads (int | None): CPU threads that benchmarks were told to use.
            Defaults to None, which means torch's own number.
        device (str | None): Where they ran. Defaults to None, which means
            the GPU if there is one.

    Returns:
        dict[str, str]: In the order of a table.
    """
    gpu = torch.cuda.is_available() and device != 'cpu'
    rows = {
        'processor': _processor(),
        'cores': str(os.cpu_count()),
        'threads': str(threads or torch.get_num_threads()),
    }
    if hasattr(os, 'sysconf'):
        size = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
        rows['memory'] = f'{size / 2**30:.0f} GB'
    rows['GPU'] = torch.cuda.get_device_name() if gpu else 'none'
    rows['system'] = f'{platform.system()} {platform.machine()}'
    rows['Python'] = platform.python_version()
    rows['PyTorch'] = torch.__version__
    return rows


def _processor() -> str:
    """Its name, of the system's table where it has one."""
    table = Path('/proc/cpuinfo')
    if table.exists():
        for line in table.read_text().splitlines():
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.processor() or platform.machine()
