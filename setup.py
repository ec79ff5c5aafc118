"""What pyproject.toml cannot say: packages found below harness/, and two folders installed under names of their own.

In site-packages `methods` and `reports` would stand in the way of a user's own folders of those names.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["harness", "harness.*"]), "harness_methods", "harness_reports"],
    package_dir={"harness_methods": "methods", "harness_reports": "reports"},
)
