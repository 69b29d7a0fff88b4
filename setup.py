"""Put Dags, plugins, jobs, manifests and the catalog into the wheel, beside the code."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("dags", "plugins", "spark_jobs", "k8s", "include/catalog")


class WithProject(build_py):
    """Build the package with the folders of the checkout that it works with."""

    def run(self) -> None:
        """Copy them to where ``lagbench.project`` looks when there is no checkout."""
        super().run()
        if self.editable_mode:
            return
        project = Path(self.build_lib) / "lagbench" / "_project"
        shutil.rmtree(project, ignore_errors=True)
        for folder in FOLDERS:
            ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
            shutil.copytree(folder, project / folder, ignore=ignored)
        shutil.copy("requirements.txt", project)


setup(cmdclass={"build_py": WithProject})
