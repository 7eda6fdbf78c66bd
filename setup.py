"""Which packages there are. Everything else about the distribution stands in pyproject.toml.

The four compiler folders lie at the top of the repository and are installed as subpackages of `cuesta`. The list is
computed from the folders, so a new subpackage needs no edit here.
"""

from setuptools import find_packages, setup

COMPILER_FOLDERS = ("dialects", "transforms", "lowering", "targets")


def packages() -> list[str]:
    """Every package of the distribution, by its import name."""
    found = ["cuesta"] + [f"cuesta.{name}" for name in find_packages("cuesta")]
    for folder in COMPILER_FOLDERS:
        found += [f"cuesta.{folder}"] + [f"cuesta.{folder}.{name}" for name in find_packages(folder)]
    return found


setup(packages=packages(), package_dir={f"cuesta.{folder}": folder for folder in COMPILER_FOLDERS})
