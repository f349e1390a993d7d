# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Packaging; the version is read from ``mmgeom/version.py``."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent.resolve()
MIM = ROOT / 'mmgeom' / '.mim'


def read_version() -> str:
    """The version, without importing the package."""
    scope: dict = {}
    exec((ROOT / 'mmgeom' / 'version.py').read_text(), scope)
    return scope['__version__']


def read_requirements(name: str) -> list[str]:
    """Requirements of one file, comments left out."""
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text().splitlines()
    return [line for line in lines if line and not line.startswith('#')]


def copy_mim_files() -> None:
    """Fill ``mmgeom/.mim`` where a checkout could not create its links.

    Without support for symbolic links git writes a small text file with the
    target's path, which is replaced by a copy of the target here.
    """
    for name in ('configs', 'tools', 'model-index.yml'):
        link, target = MIM / name, ROOT / name
        if link.is_symlink() or not target.exists():
            continue
        if link.is_dir():
            shutil.rmtree(link)  # the copy of an earlier build
        else:
            link.unlink(missing_ok=True)
        if target.is_dir():
            shutil.copytree(target, link)
        else:
            shutil.copy(target, link)


copy_mim_files()

extras = {
    'lite': read_requirements('lite'),
    'mim': read_requirements('mminstall'),
    'full': read_requirements('mminstall'),
    'tests': read_requirements('tests'),
    'optional': read_requirements('optional'),
    # Large: not part of `all`.
    'text': read_requirements('text'),
}
extras['all'] = extras['lite'] + extras['tests'] + extras['optional']

setup(
    name='mmgeom',
    version=read_version(),
    description='Geometric long-tailed recognition and imbalanced '
    'regression for the OpenMMLab stack',
    long_description=(ROOT / 'README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    author='mmgeom contributors',
    license='Apache-2.0',
    keywords='long-tailed recognition, imbalanced regression, mmpretrain',
    packages=find_packages(include=['mmgeom', 'mmgeom.*']),
    include_package_data=True,
    python_requires='>=3.10',
    install_requires=read_requirements('runtime'),
    extras_require=extras,
    zip_safe=False,
    classifiers=[
        'Development Status :: 4 - Beta',
        'Operating System :: OS Independent',
        'Programming Language :: Python :: 3',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
)
