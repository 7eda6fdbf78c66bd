"""Programs that outlive the process that made them: `cuesta.package`, `cuesta.load_package` (see docs/packages.md).

What makes a package has the compiler at hand; what loads one has torch and nothing else. `container.py`, `graph.py`,
`signature.py`, `loading.py` and `training.py` are what loading needs, and import no more than that.
"""
