# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The only place that checks, probes or repairs the host packages.

What is repaired, each once per process however often this runs:

* ``mmgeom::`` inheritance. mmengine accepts only packages of a fixed list,
  which gets our name.
* Package look-ups. mmengine 0.10 asks ``pkg_resources``, which setuptools 82
  dropped and which does not find editable installs. ``is_installed`` and
  ``get_installed_path`` are answered by ``importlib`` instead; the host's
  own function reports a package that is nowhere.
* Checkpoint loading. mmengine calls ``torch.load`` without saying how; from
  torch 2.6 on that refuses mmengine's own checkpoints, and the pre-releases
  of mmengine 0.11 load them in a way that may execute code. Local and
  http(s) files are loaded by :mod:`mmgeom.checkpoint` instead.
* transformers 5 beside pycocotools. mmpretrain's optional multimodal models
  then fail on import and take everything else with them; they are left out.

Set the environment variable ``MMGEOM_NO_COMPAT=1`` to switch all of it off.
"""

import importlib.util
import logging
import os
from importlib import metadata

_HOSTS = {
    'mmengine': ('0.10.0', '1.0.0'),
    'mmcv': ('2.0.0', '2.4.0'),
    'mmpretrain': ('1.2.0', '2.0.0'),
}
_INSTALL = (
    'install mmgeom with one of `pip install "mmgeom[lite]"` (mmcv-lite, '
    'enough for everything here) and `pip install "mmgeom[full]"` (mmcv with '
    'its compiled operators)'
)
_SWITCH = 'MMGEOM_NO_COMPAT'
_applied = False


def check_host() -> None:
    """Check that the host packages are there in versions we know.

    Raises:
        ImportError: Names the package, the version found, and the commands
            that install what is missing.
    """
    for package, (low, high) in _HOSTS.items():
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f'mmgeom needs {package}, which is not installed: {_INSTALL}.'
            )
        version = _version(package)
        if version and not _key(low) <= _key(version) < _key(high):
            raise ImportError(
                f'mmgeom works with {package}>={low},<{high}, but '
                f'{package}=={version} is installed: {_INSTALL}.'
            )


def apply_compat() -> None:
    """Repair the host packages; a second call does nothing."""
    global _applied
    if _applied or os.environ.get(_SWITCH, '0') not in ('', '0'):
        return
    _allow_inheritance()
    _repair_package_lookup()
    _repair_checkpoint_loading()
    _skip_broken_multimodal()
    _applied = True


def _version(package: str) -> str | None:
    """Version of the distribution that provides a module."""
    candidates = [package, f'{package}-lite', f'onedl-{package}']
    for name in candidates:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _key(version: str) -> tuple[int, ...]:
    """Release numbers of a version; a pre-release counts as its release."""
    numbers = []
    for part in version.split('+')[0].split('.')[:3]:
        digits = ''.join(c for c in part.split('rc')[0] if c.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers)


def _allow_inheritance() -> None:
    from mmengine.config.utils import MODULE2PACKAGE

    MODULE2PACKAGE.setdefault('mmgeom', 'mmgeom')


def _repair_package_lookup() -> None:
    import mmengine.config.config as config
    import mmengine.hub.hub as hub
    import mmengine.utils as utils
    import mmengine.utils.package_utils as package_utils

    host_path = package_utils.get_installed_path

    def is_installed(package: str) -> bool:
        """Whether a package is installed, asked of importlib."""
        return _module_path(package) is not None or _is_distribution(package)

    def get_installed_path(package: str) -> str:
        """Folder of an installed package, asked of importlib."""
        return _module_path(package) or host_path(package)

    for module in (config, hub, utils, package_utils):
        for function in (is_installed, get_installed_path):
            if hasattr(module, function.__name__):
                setattr(module, function.__name__, function)


def _module_path(package: str) -> str | None:
    """Folder of a package by its module name or its distribution name."""
    names = [package] if package.isidentifier() else []
    try:
        text = metadata.distribution(package).read_text('top_level.txt')
        names += (text or '').split()
    except metadata.PackageNotFoundError:
        pass
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            return os.path.dirname(spec.origin)
    return None


def _is_distribution(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _repair_checkpoint_loading() -> None:
    import mmengine.runner.checkpoint as host

    from .checkpoint import load_from_http, load_from_local

    # Names of model hubs resolve to an address and then call the module's
    # own function, so that one is replaced beside the registered scheme.
    host.load_from_local = load_from_local
    host.load_from_http = load_from_http
    register = host.CheckpointLoader.register_scheme
    register('', load_from_local, force=True)
    register(('http://', 'https://'), load_from_http, force=True)


def _skip_broken_multimodal() -> None:
    if any(
        importlib.util.find_spec(name) is None
        for name in ('transformers', 'pycocotools')
    ):
        return
    version = _version('transformers')
    if version is None or _key(version) < (5,):
        return
    from mmengine.logging import print_log
    from mmpretrain.utils import dependency

    dependency.WITH_MULTIMODAL = False
    print_log(
        f'mmpretrain cannot import its multimodal models with transformers '
        f'{version}; they are left out. Install transformers<5 to use them.',
        logger='current',
        level=logging.WARNING,
    )
