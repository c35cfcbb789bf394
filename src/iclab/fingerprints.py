"""What a user's function, class or object does, as a hash: its source, and the values that it carries along."""

from __future__ import annotations

import ast
import copyreg
import dis
import functools
import hashlib
import importlib.util
import inspect
import io
import marshal
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pydantic import BaseModel

NO_STATE = {"__dict__", "__weakref__", "__doc__", "_abc_impl", "__module__", "__annotations__"} | {
    "__firstlineno__",
    "__static_attributes__",
}
"""Parts of a class that say nothing about what it does, or that another part says."""


class FingerprintError(ValueError):
    """An object whose meaning cannot be told from that of another, in one line."""


def source_hash(obj: Any) -> str:
    """Hash the module that defines the object, and the user's modules it imports, so that changed helpers count.

    Whatever is more than a function or class of a module is also hashed itself: lambdas and closures, because a module
    may define many of the same name, methods and objects with their attributes, and what has no file.
    """
    name = getattr(obj, "__qualname__", "<>")
    try:
        text = _text_of(obj)
        if inspect.isbuiltin(obj) and _is_plain_builtin(obj):
            name += "builtins.builtin_function_or_method"  # its path says which
        elif "<" in name or not text or not _is_of_module(obj, name):
            name += Fingerprint().of(obj)
    except RecursionError:
        raise FingerprintError(f"{name}: holds values that are nested too deeply to be hashed") from None
    return hashlib.sha256(f"{text}\0{name}".encode()).hexdigest()[:16]


def users_files(obj: Any) -> dict[str, Path]:
    """Return the user's own files that an object needs, by the names of their modules, with their packages."""
    try:
        seen: set[Path] = set()
        _with_imports(Path(inspect.getsourcefile(inspect.unwrap(obj)) or ""), sys.modules.get(obj.__module__), seen)
    except (OSError, TypeError, UnicodeDecodeError):
        return {}
    found = {name: _file(module) for name, module in list(sys.modules.items()) if _file(module) in seen}
    for name in list(found):
        parts = name.split(".")
        for depth in range(1, len(parts)):
            package = ".".join(parts[:depth])
            found[package] = _file(sys.modules.get(package))
    return {name: file for name, file in sorted(found.items()) if _users(file) and name != "__main__"}


def _is_of_module(obj: Any, name: str) -> bool:
    """Return whether the text of its module says all about an object: a class or function there, decorated or not."""
    if _is_decorated(obj):
        return getattr(sys.modules.get(obj.__module__), name, None) is obj  # what its decorator keeps is no meaning
    return isinstance(obj, type) or (inspect.isfunction(obj) and not obj.__closure__)


def _is_decorated(obj: Any) -> bool:
    return "__wrapped__" in getattr(obj, "__dict__", ()) and not isinstance(obj, type)


def _is_plain_builtin(obj: Any) -> bool:
    return obj.__self__ is None or isinstance(obj.__self__, (ModuleType, type))


def _text_of(obj: Any) -> str:
    """Return the text of the file that defines a function or class, with its imports; empty if there is none."""
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(obj) if _is_decorated(obj) else obj) or "")
        module = sys.modules.get(obj.__module__ or "")
        return _with_imports(path, module if _file(module) == path else None, set())
    except SyntaxError as error:
        raise _changed(Path(error.filename or "")) from None
    except (OSError, TypeError, UnicodeDecodeError):
        return ""


def _file(module: ModuleType | None) -> Path:
    return Path(getattr(module, "__file__", None) or "")


def _users(path: Path) -> bool:
    """Return whether a file is the user's own: not the standard library, an installed package or iclab."""
    elsewhere = {"site-packages", "dist-packages"} & {*path.parts} or path.is_relative_to(sys.base_prefix)
    return path.suffix == ".py" and not elsewhere and not path.is_relative_to(Path(__file__).parent)


def _with_imports(path: Path, module: ModuleType | None, seen: set[Path]) -> str:
    """Return the text of a file and of all modules it imports, except installed packages and the standard library."""
    stat = path.stat()
    text, imports = _read(path, stat.st_mtime_ns, stat.st_size)
    if module is not None and _users(path):
        _check_unchanged(module, path, text)
    seen.add(path)
    package = getattr(module, "__package__", None) or ""
    names: set[str] = set()
    for level, parent, parts in imports:
        if level and not package:
            continue
        base = importlib.util.resolve_name("." * level + parent, package) if level else parent
        names |= {base, *(f"{base}.{part}" for part in parts)} if base else set(parts)
    for name in sorted(names):
        file = _file(sys.modules.get(name))
        if _users(file) and file not in seen and not name.startswith("iclab"):
            text += "\0" + _with_imports(file, sys.modules[name], seen)
    return text


@functools.lru_cache(maxsize=256)
def _read(path: Path, mtime: int, size: int) -> tuple[str, tuple[tuple[int, str, tuple[str, ...]], ...]]:
    """Return a file's text and its imports: level, module and names. Its time and size tell when to read it again."""
    text = path.read_text("utf-8")
    imports: list[tuple[int, str, tuple[str, ...]]] = []
    for node in ast.parse(text, str(path)).body:  # top level only: imported in every process
        names = tuple(alias.name for alias in node.names) if isinstance(node, (ast.Import, ast.ImportFrom)) else ()
        if isinstance(node, ast.Import):
            imports.append((0, "", names))
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.level, node.module or "", names))
    return text, tuple(imports)


# The file and the code that runs.

_imported: dict[Path, tuple[Any, str]] = {}
"""The text of every file when it was first looked at, and the import (a module's spec) that it belongs to."""


def _check_unchanged(module: ModuleType, path: Path, text: str) -> None:
    """Refuse a file that was edited after its import: what runs is not what would be hashed."""
    this_import = module.__spec__ or module  # a reload makes another spec; a script has none
    import_seen, text_seen = _imported.get(path, (None, ""))
    if import_seen is this_import:
        same = text == text_seen
    else:
        same = type(module.__loader__) is not SourceFileLoader or _runs(module, path, text)
    if not same:
        raise _changed(path)
    _imported[path] = (this_import, text)


def _changed(path: Path) -> FingerprintError:
    return FingerprintError(f"{path.name} has changed since it was imported; restart Python or reload it")


def _runs(module: ModuleType, path: Path, text: str) -> bool:
    """Return whether a module was made from a text, by its functions and by the bytecode that its import kept."""
    whole = compile(text, str(path), "exec", dont_inherit=True)
    codes = {*_codes(whole)}
    live = (found.__code__ for found in _functions(vars(module).values(), module.__name__))
    if any(code.co_filename == str(path) and code not in codes for code in live):
        return False
    file = Path(getattr(module, "__cached__", None) or "")
    if sys.dont_write_bytecode or not file.is_file() or not os.access(file, os.W_OK):
        return True  # the import kept nothing
    kept = file.read_bytes()
    return kept[:8] != importlib.util.MAGIC_NUMBER + bytes(4) or marshal.loads(kept[16:]) == whole


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _codes(constant)


def _functions(values: Iterable[Any], module: str) -> Iterator[FunctionType]:
    """Yield the functions among some values and in the classes of a module among them."""
    for value in values:
        found: Any = value.fget if isinstance(value, property) else value
        if type(found) in (FunctionType, staticmethod, classmethod):
            found = inspect.unwrap(found)
        if inspect.isfunction(found):
            yield found
        elif isinstance(found, type) and found.__module__ == module:
            yield from _functions((v for v in vars(found).values() if not isinstance(v, type)), module)


# Values.


class Fingerprint:
    """Describes objects by short texts that are the same in every process, as far as possible."""

    def __init__(self) -> None:
        self._above: list[Any] = []
        self._known: dict[int, tuple[Any, str]] = {}  # the objects too, so that no other takes their place in memory

    def of(self, obj: Any) -> str:
        """Return the text of an object: a plain value, or a hash."""
        if obj is None or obj is ... or type(obj) in (bool, int, float, complex, str):
            return repr(obj)
        if id(obj) in self._known:
            return self._known[id(obj)][1]
        for place, other in enumerate(self._above):
            if obj is other:  # a class that refers to itself
                return f"above {place}"
        self._above.append(obj)
        try:
            kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
            text = hashlib.sha256(f"{kind}:{self._parts(obj)}".encode()).hexdigest()[:20]
        finally:
            self._above.pop()
        self._known[id(obj)] = obj, text
        return text

    def _all(self, *parts: Any) -> str:
        return ",".join(map(self.of, parts))

    def _parts(self, obj: Any) -> str:
        if type(obj) in (tuple, list):
            return self._all(*obj)
        if type(obj) in (set, frozenset):
            return ",".join(sorted(map(self.of, obj)))
        if type(obj) is dict:
            return ",".join(sorted(f"{self.of(key)}={self.of(value)}" for key, value in obj.items()))
        if isinstance(obj, (bytes, bytearray, memoryview)):
            return hashlib.sha256(obj).hexdigest()
        if inspect.ismodule(obj):
            return obj.__name__
        if inspect.isbuiltin(obj):
            return f"{obj.__module__}.{obj.__qualname__}" + ("" if _is_plain_builtin(obj) else self.of(obj.__self__))
        if inspect.ismethod(obj):
            return self._all(obj.__self__, obj.__func__)
        if inspect.iscode(obj):
            return self._all(obj.co_firstlineno, obj.co_code, obj.co_consts, obj.co_names)
        if inspect.isfunction(obj):
            return self._function(obj)
        if isinstance(obj, type):
            return self._class(obj)
        return self._array(obj) or self._object(obj)

    def _function(self, obj: FunctionType) -> str:
        path = Path(obj.__code__.co_filename)
        name = f"{obj.__module__}:{obj.__qualname__}"
        cells = [_contents(cell) for cell in obj.__closure__ or ()]
        carried = name + self._all(cells, obj.__defaults__, obj.__kwdefaults__)
        if path.suffix == ".py" and path.exists() and not _users(path):
            return carried
        text = _text_of(obj)
        return carried + self._all(obj.__code__, text or _globals(obj))

    def _class(self, obj: type) -> str:
        name = f"{obj.__module__}:{obj.__qualname__}"
        file = _file(sys.modules.get(obj.__module__))
        if obj.__module__.partition(".")[0] in sys.stdlib_module_names or (file.parts and not _users(file)):
            return name
        text = _text_of(obj)
        if text and "<" not in name:
            return name + self.of(text)
        inside = {key: value for key, value in vars(obj).items() if key not in NO_STATE}
        slots = [key for key, value in inside.items() if inspect.ismemberdescriptor(value)]
        return name + self._all(text, obj.__bases__, {k: v for k, v in inside.items() if k not in slots})

    def _array(self, obj: Any) -> str:
        """Return the numbers of a NumPy array or a tensor as a hash; nothing for other objects."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(obj, torch.Tensor):
            flat = obj.detach().cpu().contiguous().reshape(-1)
            return self._all(str(obj.dtype), tuple(obj.shape), flat.view(torch.uint8).numpy().tobytes())
        if numpy is not None and isinstance(obj, numpy.ndarray):
            return self._all(str(obj.dtype), obj.shape, obj.tolist() if obj.dtype.hasobject else obj.tobytes())
        return ""

    def _object(self, obj: Any) -> str:
        """Return the class of an object and its state, as pickle would have it but with functions by what they do."""
        kind = type(obj)
        if isinstance(obj, (io.IOBase, threading.local)) or kind.__module__ in (
            "_thread",
            "threading",
            "_weakref",
            "weakref",
        ):
            return ""  # where an object writes, and what it waits for
        if isinstance(obj, (property, staticmethod, classmethod, functools.cached_property)):
            return self._all(*(getattr(obj, part, None) for part in ("fget", "fset", "fdel", "__func__", "func")))
        if _is_decorated(obj) and not _users(_file(sys.modules.get(kind.__module__))):
            return self.of(obj.__wrapped__)  # such as a function that is compiled or cached: the rest is its cache
        if isinstance(obj, BaseModel):
            return self._all(kind, {name: getattr(obj, name) for name in kind.model_fields})
        if isinstance(obj, functools.partial):
            return self._all(obj.func, obj.args, obj.keywords)
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced: Any = reduce(obj) if reduce else obj.__reduce_ex__(4)
        except Exception:  # a user's class may raise anything
            if hasattr(obj, "__objclass__"):  # a slot of a built-in class
                return f"{obj.__objclass__}.{obj.__name__}"
            name = f"{kind.__module__}.{kind.__qualname__}"
            raise FingerprintError(
                f"{name}: an object of this class cannot be hashed; pass its values instead"
            ) from None
        if isinstance(reduced, str):
            return reduced
        make, args, state, listed, pairs = (*reduced, None, None, None)[:5]
        return self._all(make, args, _without_caches(kind, state), [*(listed or ())], [*map(list, pairs or ())])


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _without_caches(kind: type, state: Any) -> Any:
    """Return the state of an object without values that it computed from others and keeps."""
    if not isinstance(state, dict):
        return state
    caches = functools.cached_property
    return {key: value for key, value in state.items() if not isinstance(getattr(kind, str(key), None), caches)}


def _globals(obj: FunctionType) -> dict[str, Any]:
    """Return the values of all global names that a function reads."""
    reads = (step for code in _codes(obj.__code__) for step in dis.get_instructions(code))
    names = {step.argval for step in reads if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return {name: obj.__globals__[name] for name in sorted(names) if name in obj.__globals__}
