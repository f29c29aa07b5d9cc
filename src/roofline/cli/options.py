"""How options are written: counts, lengths, shares, and a whole pass. Each error names the option."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import App, Parameter, Token

from roofline import units
from roofline.catalogue import load_model, load_sheet
from roofline.dtypes import STORED
from roofline.errors import BadValue, UnknownName, shown
from roofline.files import printable
from roofline.ledger import predict
from roofline.shard import MOST_RANKS, Shard
from roofline.workload import MOST, Precision, Workload, size

if TYPE_CHECKING:
    from roofline.device import Device
    from roofline.ledger import Ledger
    from roofline.model import Model


def option(convert: Callable[[str, str], Any]) -> Parameter:
    """An option of one word; `convert(option, word)` raises BadValue, which then names the option."""

    def converted(_: Any, tokens: Sequence[Token]) -> Any:
        name = tokens[0].keyword or "the argument"
        try:
            return convert(name, tokens[0].value)
        except BadValue as error:
            raise error if str(error).startswith(name) else BadValue(f"{name}: {error}") from None

    return Parameter(converter=converted, allow_leading_hyphen=True, n_tokens=1, negative=())


def _sized(parse: Callable[[str], int], least: int, most: int = MOST) -> Parameter:
    """An option that is a size in a range."""
    return option(lambda name, text: size(name, parse(text), least, most))


def _float(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"{name}: {shown(text)} is no number. Write one, as 1.2.") from None


_LEAST_SHARE = 0.01


def share(name: str, text: str) -> float:
    """A share of 1, as `0.05` or `5%`; raises BadValue that names the option."""
    try:
        value = _part(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise BadValue(f"{name}: {shown(text)} is no share. Write a number from 0 to 1, as 0.05, or 5%.")
    return value


def _part(text: str) -> float:
    """A number, or so many hundredths where it ends in a percent sign; raises ValueError."""
    number = text.strip()
    return float(number[:-1]) / 100 if number.endswith("%") else float(number)


def efficiency(text: str | None) -> tuple[float, float] | None:
    """`BANDWIDTH/COMPUTE` of --efficiency as two shares; raises BadValue."""
    if text is None:
        return None
    try:
        bandwidth, compute = (_part(each) for each in text.split("/"))
    except ValueError:
        raise BadValue(
            f"--efficiency: {shown(text)} is not BANDWIDTH/COMPUTE. Write two shares, as 0.80/0.75 or 80%/75%."
        ) from None
    if not all(_LEAST_SHARE <= share <= 1 for share in (bandwidth, compute)):
        raise BadValue(
            f"--efficiency: {shown(text)} is out of range. Both shares are from {_LEAST_SHARE} to 1, as 0.80/0.75."
        )
    return bandwidth, compute


Sequences = Annotated[int, _sized(units.count, 1)]
Tokens = Annotated[int, _sized(units.length, 1)]
Context = Annotated[int, _sized(units.length, 0)]
Ranks = Annotated[int, _sized(units.count, 1, MOST_RANKS)]
Bytes = Annotated[int, option(lambda _, text: int(units.quantity(text, "B")))]
Workers = Annotated[int, _sized(units.count, 1, 512)]
Number = Annotated[int, _sized(units.count, 0)]
Skew = Annotated[float, option(_float)]


def print_json(record: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def written(path: str | Path | None) -> None:
    """Say where a file was written; nothing into a pipe or a file, and nothing of no file."""
    if path is not None and sys.stderr.isatty():
        sys.stderr.write(f"Written: {printable(path)}\n")


def print_text(written: str) -> None:
    """Text on standard output, as it is: a script or a file."""
    sys.stdout.write(written)


_ROWS = Parameter(group="Rows", negative=())
_FORMATS = Parameter(group="Formats", negative=())
_EXPERTS = Parameter(group="Experts", negative=())


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A pass on a device as options describe it.

    Parameters
    ----------
    device
        A device id (roofline devices) or a device's TOML file.
    phase
        decode: one new token a sequence. prefill: many.
    sequences
        Sequences in the pass.
    new_tokens
        New tokens of each sequence; 1 in decode, 2048 in prefill. 8k is 8192.
    context
        In decode the tokens that the new one attends to, itself among them; 8k. In prefill, and
        before several new tokens, those cached already; 0.
    logits
        Of a prefill: of the last position, or of all.
    prefill_sequences
        Prefill rows beside the decode rows (chunked prefill): their sequences.
    prefill_tokens
        New tokens of each of these; 2048.
    prefill_context
        Tokens cached before them; 0.
    images
        Images that the vision tower reads in the pass; none: text alone.
    image_tokens
        Tokens that the text model sees of each image, among the new ones.
    source
        Of an encoder-decoder: positions of each sequence that the encoder reads; as many as the decoder has.
    weights
        Format of every weight matrix, as bf16, fp8, int4, int4-g128, mxfp4, nvfp4; stored: each as the
        checkpoint's file says, which is the default where it says so, else bf16.
    kv
        Format of the KV cache.
    activations
        Format of the activations.
    compute
        Rate that GEMMs and attention run at, as bf16, fp8, int8, tf32.
    experts_touched
        Experts that are read in each layer; without it, as many as the tokens are expected to reach.
    expert_skew
        Exponent of a power law by which tokens choose experts; 0: evenly.
    tp
        Ranks of tensor parallelism.
    efficiency
        BANDWIDTH/COMPUTE, as 0.80/0.75: times at these shares of bandwidth and peak.
    fused
        Fold the small kernels into the kernels beside them.
    set
        What if: FIELD=VALUE of the device or the model, as device.peak.bf16=2PFLOP/s, device.bandwidth=x2,
        model.kv_heads=1.
    """

    device: str
    phase: Annotated[Literal["decode", "prefill"], _ROWS] = "decode"
    sequences: Annotated[Sequences, _ROWS] = 1
    new_tokens: Annotated[Tokens | None, _ROWS] = None
    context: Annotated[Context | None, _ROWS] = None
    logits: Annotated[Literal["last", "all"], _ROWS] = "last"
    prefill_sequences: Annotated[Sequences | None, _ROWS] = None
    prefill_tokens: Annotated[Tokens | None, _ROWS] = None
    prefill_context: Annotated[Context | None, _ROWS] = None
    images: Annotated[Sequences | None, _ROWS] = None
    image_tokens: Annotated[Tokens | None, _ROWS] = None
    source: Annotated[Tokens | None, _ROWS] = None
    weights: Annotated[str | None, _FORMATS] = None
    kv: Annotated[str, _FORMATS] = "bf16"
    activations: Annotated[str, _FORMATS] = "bf16"
    compute: Annotated[str, _FORMATS] = "bf16"
    experts_touched: Annotated[Sequences | None, _EXPERTS] = None
    expert_skew: Annotated[Skew, _EXPERTS] = 0.0
    tp: Ranks = 1
    efficiency: Annotated[str | None, Parameter(allow_leading_hyphen=True, negative=())] = None
    fused: Annotated[bool, Parameter(negative=())] = False
    set: Annotated[list[str], Parameter(consume_multiple=True, negative=())] = field(default_factory=list[str])

    def against(self, text: str) -> Setting:
        """This setting on another device, or with the changes "FIELD=VALUE ..."; raises BadValue or UnknownName."""
        words = text.split()
        if not words:
            raise BadValue('--against names nothing. Write a device, or changes as "weights=fp8 device.bandwidth=x2".')
        if "=" not in words[0]:
            words[0] = f"device={words[0]}"
        changed = [each for each in words if each.startswith(("device.", "model."))]
        options = _parsed([each for each in words if each not in changed])
        # What is changed again, and what belonged to another device, is no longer set.
        again = tuple(f"{each.partition('=')[0]}=" for each in changed)
        dropped = (*again, "device.") if "device" in options else again
        kept = [each for each in self.set if not each.startswith(dropped)]
        return replace(self, **options, set=[*kept, *changed])

    def loaded_model(self, name: str) -> Model:
        """The model of that name with its changed fields."""
        return load_model(name, self._changes[1])

    @property
    def loaded_device(self) -> Device:
        """The device with its changed fields."""
        found = load_sheet(self.device)
        if not self.set:
            return found.device()
        from roofline.hypothetical import changed_device

        return changed_device(found, self._changes[0])

    @property
    def _changes(self) -> tuple[dict[str, str], dict[str, str]]:
        if not self.set:
            return {}, {}
        from roofline.hypothetical import changes

        return changes(self.set)

    def precision(self, model: Model) -> Precision:
        """The formats of a pass of this model."""
        if self.weights is not None and self.weights.strip().lower() == STORED and not model.quantised:
            raise BadValue(
                f"--weights stored: what is known of {shown(model.name)} says no format of weights. Name one, as fp8."
            )
        return Precision(STORED if self.weights is None else self.weights, self.kv, self.activations, self.compute)

    @property
    def workload(self) -> Workload:
        """The pass that the options describe, with the defaults of its phase; raises BadValue."""
        rows = self._rows.routed(touched=self.experts_touched, skew=self.expert_skew)
        if (self.images is None) is not (self.image_tokens is None):
            raise BadValue("--images and --image-tokens go together: how many images, and how many tokens each is.")
        if self.source is not None:
            rows = rows.reading(self.source)
        return rows if self.images is None else rows.seeing(self.images, cast(int, self.image_tokens))

    @property
    def _rows(self) -> Workload:
        """The rows of the pass."""
        beside = (self.prefill_sequences, self.prefill_tokens, self.prefill_context)
        new, context = self.new_tokens, self.context
        if self.phase == "prefill":
            if any(each is not None for each in beside):
                raise BadValue(
                    "--prefill-sequences and its kin add prefill rows to a decode pass. Leave --phase at decode."
                )
            return Workload.prefill(self.sequences, 2048 if new is None else new, context or 0, self.logits)
        decode = Workload.decode(self.sequences, 8192 if context is None else context, 1 if new is None else new)
        if all(each is None for each in beside):
            return decode
        count, tokens, cached = beside
        chunk = Workload.prefill(
            1 if count is None else count, 2048 if tokens is None else tokens, cached or 0, self.logits
        )
        return Workload.mixed(decode, chunk)

    def ledger(self, model: str) -> Ledger:
        """The ledger of the model in this setting."""
        return predict(*self.case(model), **self.options)

    def case(self, model: str) -> tuple[Model, Device, Workload, Precision]:
        """What `roofline.predict` takes by place."""
        found = self.loaded_model(model)
        return found, self.loaded_device, self.workload, self.precision(found)

    @property
    def options(self) -> dict[str, Any]:
        """What `roofline.predict` takes by name."""
        return {"shard": Shard(self.tp), "efficiency": efficiency(self.efficiency), "fused": self.fused}


def _parsed(words: list[str]) -> dict[str, Any]:
    """Options written as FIELD=VALUE, read as the command line reads them; raises BadValue or UnknownName."""
    known = {each.name: each for each in fields(Setting) if each.name != "set"}
    arguments: list[str] = []
    names: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        name = name.strip("-").replace("-", "_")
        if not equals:
            raise BadValue(f"--against: {shown(word)} changes nothing. Write FIELD=VALUE, as weights=fp8.")
        if name not in known:
            raise UnknownName.of("field", name, [*known, "device.FIELD", "model.FIELD"])
        option = f"--{name.replace('_', '-')}"
        arguments += [f"{option}={value}"]
        names.append(name)
    reader = App()

    @reader.default
    def read(*, setting: Setting) -> Setting:  # pyright: ignore[reportUnusedFunction]
        return setting

    if "device" not in names:
        arguments += ["--device", "unchanged"]  # an option that must be there
    found = reader(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    return {name: getattr(found, name) for name in names}
