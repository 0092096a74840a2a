"""Values in and out of JSON text by their annotation: plain JSON, builtins without help, the rest by pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onward import codec
from onward.errors import DeclarationError, OutputError
from onward.job.annotations import MISSING, Names, resolve
from onward.job.survival import join, loss
from onward.job.typed_dicts import for_pydantic

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_SHOWN_MISFITS = 5


class Misfit(ValueError):
    """A value does not fit its type. The message names paths and reasons, never the value."""


class Shape(Protocol):
    """What one annotation makes of values."""

    def decode(self, text: str) -> Any:
        """The value of an output that was stored as JSON `text`. Raises Misfit."""

    def decode_input(self, text: str) -> Any:
        """The value of a record or of params, whose fields may go by aliases. Raises Misfit."""

    def check(self, plain: Any) -> Any:
        """The value of a plain JSON value, strings taken leniently. Raises Misfit."""

    def encode(self, value: Any) -> str:
        """JSON text from which `decode` gets the same value back. Raises OutputError, naming the path."""

    def schema(self) -> Any:
        """The JSON schema of what `encode` writes; None where the annotation says all."""


class PlainShape:
    """No annotation, or one that promises nothing: JSON as it is."""

    def decode(self, text: str) -> Any:
        return codec.loads(text)

    decode_input = decode

    def check(self, plain: Any) -> Any:
        return plain

    def encode(self, value: Any) -> str:
        return codec.dumps(value)

    def schema(self) -> Any:
        return None


PLAIN = PlainShape()


class BuiltinShape:
    """Text, numbers, None, dict and list as such: a value of exactly this type needs no pydantic, others ask it."""

    def __init__(self, annotation: Any, exact: type):
        self.annotation = annotation
        self.exact = exact
        self._full: ModelShape | None = None

    def _by_pydantic(self) -> ModelShape:
        if self._full is None:
            self._full = ModelShape(self.annotation, Names())
        return self._full

    def decode(self, text: str) -> Any:
        value = codec.loads(text)
        return value if type(value) is self.exact else self._by_pydantic().decode(text)

    decode_input = decode

    def check(self, plain: Any) -> Any:
        return plain if type(plain) is self.exact else self._by_pydantic().check(plain)

    def encode(self, value: Any) -> str:
        if type(value) is self.exact:
            return codec.dumps(value)
        return self._by_pydantic().encode(value)

    def schema(self) -> Any:
        return None


class ModelShape:
    """Whatever pydantic understands: models, dataclasses, TypedDict, NamedTuple, dates, decimals, enums, unions, …"""

    def __init__(self, annotation: Any, names: Names):
        from pydantic_core import ValidationError

        self.adapter = _adapter(annotation, names)
        self._unfit = ValidationError
        self._validator = self.adapter.validator
        self._serializer = self.adapter.serializer

    def decode(self, text: str) -> Any:
        return self._decode(text, either_name=True)

    def decode_input(self, text: str) -> Any:
        return self._decode(text, either_name=None)

    def _decode(self, text: str, either_name: bool | None) -> Any:
        """`either_name`: fields go by name or alias, whichever the model prefers; None: as the model says."""
        try:
            return self._validator.validate_json(text, by_alias=either_name, by_name=either_name)
        except self._unfit as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
                raise Misfit(explain(error)) from None
        except Exception as error:
            raise Misfit(_raised(error)) from None
        return self._check(codec.loads(text), either_name)  # JSON that pydantic cannot read: a lone surrogate

    def check(self, plain: Any) -> Any:
        return self._check(plain, either_name=None)

    def _check(self, plain: Any, either_name: bool | None) -> Any:
        try:
            return self._validator.validate_python(plain, by_alias=either_name, by_name=either_name)
        except self._unfit as error:
            reason = explain(error)
        except Exception as error:
            raise Misfit(_raised(error)) from None
        try:  # a strict model takes a date as text, but only from JSON
            return self._validator.validate_json(codec.dumps(plain), by_alias=either_name, by_name=either_name)
        except Exception:
            raise Misfit(reason) from None

    def encode(self, value: Any) -> str:
        fitting = self._fit(value)
        try:
            text = self._serializer.to_json(fitting, by_alias=False, warnings=False).decode()
        except Exception as error:
            text = self._plain_text(fitting, error)
        try:
            back = self.decode(text)
        except Misfit as misfit:
            return self._round_trip(fitting, misfit)
        if not _same(fitting, back):
            self._explain_loss(fitting, back)
        return text

    def _fit(self, value: Any) -> Any:
        """`value` as the annotation's type: it must be that already, or plain JSON that says it without guessing."""
        try:
            return self._validator.validate_python(value, strict=True, by_alias=True, by_name=True)
        except self._unfit as error:
            reason = explain(error, "the output")
        except Exception as error:
            raise OutputError(_raised(error, "the output")) from error
        try:
            return self._validator.validate_json(codec.dumps(value), strict=True, by_alias=True, by_name=True)
        except self._unfit as error:
            raise OutputError(explain(error, "the output")) from None
        except Exception:
            raise OutputError(reason) from None

    def _plain_text(self, value: Any, error: Exception) -> str:
        """JSON text by way of plain values, which names the path of what cannot be written."""
        try:
            plain = self._plain(value)
        except Exception:
            raise OutputError(f"the output cannot be written as JSON: {error}") from None
        return codec.dumps(plain)

    def _plain(self, value: Any) -> Any:
        return self._serializer.to_python(value, mode="json", by_alias=False, warnings=False)

    def _round_trip(self, value: Any, misfit: Misfit) -> str:
        """JSON text without computed fields, for models that refuse those as input."""
        try:
            text: str = self._serializer.to_json(value, by_alias=False, round_trip=True, warnings=False).decode()
            if _same(value, self.decode(text)):
                return text
        except Exception:  # the first finding says more
            pass
        codec.check(self._plain(value))
        raise OutputError(str(misfit))

    def _explain_loss(self, value: Any, back: Any) -> None:
        codec.check(self._plain(value))
        found = loss(value, back)
        if found is not None:
            raise OutputError(found)

    def schema(self) -> Any:
        try:
            return self.adapter.json_schema(by_alias=False, mode="serialization")
        except Exception:  # a type that JSON schema has no words for
            return None


def shape_of(annotation: Any, names: Names) -> Shape:
    """The shape of a resolved annotation.

    Raises DeclarationError where it cannot be kept as JSON, NameError while a class in it names one not yet defined.
    """
    if annotation is MISSING or annotation is Any or annotation is object:
        return PLAIN
    exact = _exact_type(annotation)
    return ModelShape(annotation, names) if exact is None else BuiltinShape(annotation, exact)


class Shapes:
    """The shapes of one job, each made once, so that equal types share what is built for them."""

    def __init__(self, names: Names, made: dict[Any, Shape] | None = None):
        self._names = names
        self._made: dict[Any, Shape] = {} if made is None else made

    def among(self, names: Names) -> Shapes:
        """The same shapes for annotations that stand where these names are known."""
        return Shapes(names, self._made)

    def of(self, annotation: Any) -> Shape:
        """The shape of an annotation as it was written. Raises as `shape_of`."""
        meant = resolve(annotation, self._names)
        try:
            place = (str(meant), meant)  # a union equals itself in another order, its text does not
            if place not in self._made:
                self._made[place] = shape_of(meant, self._names)
            return self._made[place]
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
        return shape_of(meant, self._names)


_EXACT: dict[Any, type] = {
    str: str,
    int: int,
    float: float,
    bool: bool,
    dict: dict,
    list: list,
    type(None): type(None),
    dict[str, Any]: dict,
    list[Any]: list,
}


def _exact_type(annotation: Any) -> type | None:
    try:
        return _EXACT.get(annotation)
    except TypeError:
        return None


_BUILD = compile("_onward_adapter(_onward_annotation)", "<annotation>", "eval")


def _adapter(annotation: Any, names: Names) -> TypeAdapter[Any]:
    """pydantic looks names up where its adapter is made, so it is made where the annotation was written.

    Raises NameError while a class that it needs is not defined.
    """
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        spot = {**names.merged(), "_onward_adapter": TypeAdapter, "_onward_annotation": for_pydantic(annotation, names)}
        adapter: TypeAdapter[Any] = eval(_BUILD, spot)
        if not adapter.pydantic_complete:
            adapter.rebuild(_types_namespace=names.merged())
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DeclarationError(
            f"{_name(annotation)} cannot be kept as JSON; use plain values (for an array: .tolist()), a dataclass or a "
            f"pydantic model ({reason})"
        ) from error
    return adapter


def _name(annotation: Any) -> str:
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        module = "" if annotation.__module__ in ("builtins", "__main__") else f"{annotation.__module__}."
        return f"{module}{annotation.__qualname__}"
    return str(annotation)


def _same(before: Any, after: Any) -> bool:
    try:
        return bool(before == after)
    except Exception:
        return False


def explain(error: ValidationError, whole: str = "the value") -> str:
    """pydantic's findings as `path: reason; …`, without the values."""
    findings = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{_path(finding['loc']) or whole}: {finding['msg']}" for finding in findings[:_SHOWN_MISFITS]]
    rest = len(findings) - len(said)
    return "; ".join(said) + (f"; and {rest} more" if rest else "")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else join(path, part)
    return path


def _raised(error: Exception, whole: str = "the value") -> str:
    return f"{whole} makes its type's own code raise {type(error).__name__}"
