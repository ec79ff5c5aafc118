"""Packages: those below harness/, and methods/ and reports/ under names that do not collide.

In site-packages, `methods` and `reports` would shadow a user's own packages of these names. The
pages of the documents are installed as harness/docs (harness/documents.py).
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["harness", "harness.*"]),
        "harness.docs",
        "harness_methods",
        "harness_reports",
    ],
    package_dir={
        "harness.docs": "docs",
        "harness_methods": "methods",
        "harness_reports": "reports",
    },
)
