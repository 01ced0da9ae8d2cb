"""Loads the installed module `sweep`, else the one that the program carries."""

import importlib.machinery as _machinery
import importlib.util as _util
import os as _os
import sys as _sys

_own = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
_others = [path for path in _sys.path if _os.path.abspath(path or _os.curdir) != _own]
_spec = _machinery.PathFinder.find_spec(__name__, _others)
# A folder without `__init__.py` has no origin, and is no module that anybody imports by this name.
if _spec is None or _spec.origin is None:
    _spec = _machinery.PathFinder.find_spec(__name__, [_os.path.join(_os.path.dirname(_own), "package")])
_module = _util.module_from_spec(_spec)
_sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
