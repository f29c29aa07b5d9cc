"""What a quantised checkpoint's config says of its weights: the format of each, scales and zero points included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from roofline.config import Config
from roofline.dtypes import DTYPES, WHOLE, DType
from roofline.errors import shown
from roofline.model import Block, Model
from roofline.modules import MATCHES, Names
from roofline.parts.base import Part, Weight

# Matrices that methods by module never store smaller: looked up, or no module of their own.
_ROUTERS = ("router", "shared_gate")
_KEPT_BY_ITSELF = ("indexer_weights_proj",)
MOST_GROUP = 1 << 24
_MOST_MODULES = 1 << 18

Of = Callable[[str, str, "int | None"], "DType | None"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The format of a weight by its name, part and layer (None: 16 bits), and what to call the method.

    `names` are the lists of modules that it goes by: layers of which they say the same are stored alike.
    """

    name: str
    of: Of
    names: tuple[Names, ...]


def _scaled(name: str, bits: int, *scales: tuple[int, int, int]) -> DType:
    """A format of `bits` an element, with scales of so many bits for each block of rows and columns."""
    first, *also = scales or ((WHOLE, WHOLE, 0),)
    return DType(name, bits, first[:2], first[2], also=tuple(also))


def stored(whole: Config, config: Config, model: Model, beside: Mapping[str, Any] | None = None) -> Model:
    """The model with what its file says of the weights' formats; as it is where the file says nothing.

    `beside` is the file hf_quant_config.json. Raises ConfigError for what cannot be.
    """
    rules = _rules(whole, config, beside)
    if rules is None:
        return model
    if any(each.asked(model.layers) > MATCHES for each in rules.names):
        raise config.fail(f"its lists of modules have too many expressions for {model.layers:,} layers. Name modules.")
    ends = tuple(
        (f"{part.label}.{each.name}", found)
        for part in model.after
        for each in part.weights()
        if each.inp is not None and (found := rules.of(each.name, part.label, None)) is not None
    )
    blocks = tuple(split for block in model.blocks for split in _split(block, rules))
    found = replace(model, blocks=blocks, stored=ends)
    config.assume(_said(found, rules))
    return found


def _split(block: Block, rules: Rules) -> list[Block]:
    """The block as one for each way in which its layers are stored."""
    kinds: dict[tuple[tuple[str, DType], ...], list[int]] = {}
    products = [(part.label, each.name) for part in block.parts for each in _matrices(part)]
    known: dict[object, tuple[tuple[str, DType], ...]] = {}
    for layer in block.layers:
        alike = tuple(each.alike(layer) for each in rules.names)
        if alike not in known:
            formats = ((f"{label}.{name}", rules.of(name, label, layer)) for label, name in products)
            known[alike] = tuple((name, found) for name, found in formats if found is not None)
        kinds.setdefault(known[alike], []).append(layer)
    return [Block(block.parts, tuple(layers), key) for key, layers in kinds.items()]


def _matrices(part: Part) -> Iterable[Weight]:
    return (each for each in part.weights() if each.inp is not None and each.kind == "matrix")


def _said(model: Model, rules: Rules) -> str:
    """How many parameters are in which format."""
    counts: dict[str, int] = {}
    for times, part, formats in model.sites:
        for each in part.weights():
            found = formats.get(f"{part.label}.{each.name}")
            name = "16 bits" if found is None else found.name
            counts[name] = counts.get(name, 0) + times * each.parameters
    listed = ", ".join(f"{count:,} parameters in {name}" for name, count in counts.items())
    return f"The file says how its weights are stored ({rules.name}): {listed}"


def _rules(whole: Config, config: Config, beside: Mapping[str, Any] | None) -> Rules | None:
    for each in dict.fromkeys((whole, config)):
        if each.keys.get("quantization_config") is not None:
            section = each.section("quantization_config")
            method = section.keys.get("quant_method")
            if method is None and "quant_algo" in section.keys:
                method = "modelopt"
            reader = METHODS.get(str(method).lower().replace("_", "-"))
            if reader is None:
                config.assume(
                    f"The file says its weights are quantised ({shown(method, 30)}), which is not known here: counted "
                    "as --weights says"
                )
                return None
            return reader(section, config)
    if beside is not None:
        return _modelopt(config.having(beside).section("quantization"), config)
    return None


def _names(section: Config, *keys: str) -> Names:
    """The modules that any of these keys lists."""
    return Names([each for key in keys for each in _listed(section, key)], f"{section.source}: {keys[0]}")


def _by_module(ignored: Names, found: DType, *, head: bool = False, routers: bool = False) -> Of:
    """One format for every matrix of the layers but those that are ignored."""

    def of(name: str, label: str, layer: int | None) -> DType | None:
        if (layer is None and not head) or (name in _ROUTERS and not routers) or name in _KEPT_BY_ITSELF:
            return None
        return None if ignored.mean(name, label, layer) else found

    return of


def _fp8(section: Config, config: Config) -> Rules:
    """FP8 with an FP32 scale a block of the matrix, or one for all of it; experts may be in FP4."""
    ignored = _names(section, "modules_to_not_convert", "ignored_layers")
    if section.keys.get("weight_block_size") is None:
        found = _scaled("fp8", 8, (WHOLE, WHOLE, 32))
    else:
        rows, columns = _block(section, "weight_block_size")
        found = _scaled(f"fp8 with a scale a block of {rows} x {columns}", 8, (rows, columns, 32))
    of = _by_module(ignored, found)
    if config.keys.get("expert_dtype") != "fp4":
        return Rules("fp8", of, (ignored,))

    def with_fp4(name: str, label: str, layer: int | None) -> DType | None:
        return DTYPES["mxfp4"] if name.startswith("experts_") else of(name, label, layer)

    return Rules("fp8, experts fp4", with_fp4, (ignored,))


def _listed(section: Config, key: str) -> list[object]:
    """The list under a key, empty where it is absent."""
    value: object = section.keys.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise section.fail(f"{key} is {shown(value)}. Possible: a list of names of modules.")
    return list(cast("list[object]", value))


def _block(section: Config, key: str) -> tuple[int, int]:
    """Rows and columns that share a scale."""
    value: object = section.keys.get(key)
    sides = cast("list[object]", value) if isinstance(value, list) else []
    good = [each for each in sides if isinstance(each, int) and 0 < each <= MOST_GROUP]
    if len(sides) != 2 or len(good) != 2:
        raise section.fail(f"{key} is {shown(cast(object, value))}. Possible: two whole numbers, as [128, 128].")
    return good[0], good[1]


def _group(section: Config, key: str, default: int | None) -> int:
    """Elements of a row that share a scale; all of them where the key says -1 or nothing."""
    found = section.keys.get(key)
    if found is None and default is not None:
        return default
    if found is None or found == -1:
        return WHOLE
    return section.integer(key, "how many elements share a scale", most=MOST_GROUP)


def _bits(section: Config, *keys: str) -> int:
    key = next((each for each in keys if section.keys.get(each) is not None), keys[0])
    return section.integer(key, "the bits of a weight", most=16)


def _gptq(section: Config, config: Config) -> Rules:
    """GPTQ: FP16 scales and zero points of as many bits a group, and the group of each input (int32)."""
    bits = _bits(section, "bits", "w_bit")
    group = _group(section, "group_size", None)
    found = _scaled(_grouped(f"int{bits} (GPTQ)", group), bits, (1, group, 16 + bits), (WHOLE, 1, 32))
    head = section.flag("lm_head", False)
    left = _dynamic(section)
    return Rules("gptq", _by_module(left, found, head=head), (left,))


def _dynamic(section: Config) -> Names:
    """Modules that `dynamic` leaves out, by a minus before their expression; and those that are listed."""
    left = [f"re:{key[2:]}" for key in section.section("dynamic").keys if key.startswith("-:")]
    return Names([*left, *_listed(section, "modules_to_not_convert")], f"{section.source}: dynamic")


def _grouped(name: str, group: int) -> str:
    return f"{name}, a scale a row" if group == WHOLE else f"{name} in groups of {group}"


def _awq(section: Config, config: Config) -> Rules:
    """AWQ: an FP16 scale, and a zero point of as many bits where it has them, for each group."""
    bits = _bits(section, "bits", "w_bit")
    group = _group(section, "group_size" if "group_size" in section.keys else "q_group_size", 128)
    zero = bits if section.flag("zero_point", True) else 0
    found = _scaled(_grouped(f"int{bits} (AWQ)", group), bits, (1, group, 16 + zero))
    kept = _names(section, "modules_to_not_convert")
    return Rules("awq", _by_module(kept, found), (kept,))


def _bitsandbytes(section: Config, config: Config) -> Rules:
    """4 bits: an FP32 scale for each 64, or 8 bits and FP32 for each 256 of these; 8 bits: an FP32 scale a row."""
    kept = _names(section, "llm_int8_skip_modules")
    if section.flag("load_in_8bit", False):
        return Rules("bitsandbytes", _by_module(kept, _scaled("int8, a scale a row", 8, (1, WHOLE, 32))), (kept,))
    if not section.flag("load_in_4bit", section.flag("_load_in_4bit", False)):
        raise section.fail("load_in_4bit and load_in_8bit are missing; one decides the weights' format. Add it.")
    name = shown(section.keys.get("bnb_4bit_quant_type", "fp4"), 10).strip("'")
    twice = section.flag("bnb_4bit_use_double_quant", False)
    # Blocks run through the matrix row by row: 256 of 64 elements are as many as 64 rows of 256.
    scales = ((1, 64, 8), (64, 256, 32)) if twice else ((1, 64, 32),)
    return Rules("bitsandbytes", _by_module(kept, _scaled(f"{name} (bitsandbytes)", 4, *scales)), (kept,))


def _mxfp4(section: Config, config: Config) -> Rules:
    """MXFP4 of the routed experts, whose module is no list of matrices; nothing else is converted."""
    kept = _names(section, "modules_to_not_convert")

    def of(name: str, label: str, layer: int | None) -> DType | None:
        expert = name.startswith("experts_") and not kept.mean(name, label, layer)
        return DTYPES["mxfp4"] if expert else None

    return Rules("mxfp4", of, (kept,))


_STRATEGIES: Mapping[str, tuple[int, int]] = {
    "tensor": (WHOLE, WHOLE),
    "channel": (1, WHOLE),
}


def _compressed(section: Config, config: Config) -> Rules:
    """compressed-tensors: groups of modules, each with bits, type and strategy; scales as wide as activations."""
    groups = section.section("config_groups").keys
    if not groups:
        raise section.fail("config_groups is missing; it decides the weights' formats. Add it.")
    kept = _names(section, "ignore")
    read: list[tuple[Names, bool, DType | None]] = []
    for key in groups:
        group = section.section("config_groups").section(key)
        targets = _listed(group, "targets") or ["Linear"]
        every = any(each in ("Linear", "FusedMoE", "ExpertMLP") for each in targets)
        own = Names([each for each in targets if each != "Linear"], f"{section.source}: targets")
        weights = group.section("weights")
        read.append(
            (own, every, _compressed_format(weights, str(section.keys.get("format"))) if weights.keys else None)
        )

    def of(name: str, label: str, layer: int | None) -> DType | None:
        if kept.mean(name, label, layer) or name in _KEPT_BY_ITSELF:
            return None
        for own, every, found in read:
            if (every and name not in _ROUTERS) or own.mean(name, label, layer):
                return found
        return None

    return Rules("compressed-tensors", of, (kept, *(own for own, _, _ in read)))


def _compressed_format(weights: Config, packed: str) -> DType:
    """The format of one group."""
    bits, kind = _bits(weights, "num_bits"), weights.keys.get("type", "int")
    strategy = str(weights.keys.get("strategy") or ("group" if weights.keys.get("group_size") else "tensor"))
    name = f"fp{bits}" if kind == "float" else f"int{bits}"
    if strategy in ("group", "tensor_group"):
        group = _group(weights, "group_size", None)
        if bits == 4 and kind == "float":
            micro = "mx" in packed
            scales = ((1, group, 8),) if micro else ((1, group, 8), (WHOLE, WHOLE, 32))
            return _scaled(_grouped("mxfp4" if micro else "nvfp4", group), 4, *scales)
        zero = 0 if weights.flag("symmetric", True) else bits
        return _scaled(_grouped(name, group), bits, (1, group, 16 + zero))
    if strategy == "block":
        rows, columns = _block(weights, "block_structure")
        return _scaled(f"{name} with a scale a block of {rows} x {columns}", bits, (rows, columns, 16))
    if strategy not in _STRATEGIES:
        known = ", ".join((*_STRATEGIES, "group", "tensor_group", "block"))
        raise weights.fail(f"strategy is {shown(strategy)}. Possible: {known}.")
    zero = 0 if weights.flag("symmetric", True) else bits
    said = "a scale a row" if strategy == "channel" else "a scale a matrix"
    return _scaled(f"{name}, {said}", bits, (*_STRATEGIES[strategy], 16 + zero))


def _modelopt(section: Config, config: Config) -> Rules | None:
    """ModelOpt: one algorithm for all but the excluded modules, or one for each module that is listed."""
    algorithm = section.keys.get("quant_algo")
    kept = _names(section, "exclude_modules", "ignore")
    listed = section.section("quantized_layers").keys
    if not listed:
        found = _algorithm(section, algorithm)
        return None if found is None else Rules("modelopt", _by_module(kept, found, head=True), (kept,))
    if len(listed) > _MOST_MODULES:
        raise section.fail(
            f"quantized_layers has {len(listed):,} entries. Possible: one for each module, up to {_MOST_MODULES:,}."
        )
    formats: dict[DType, list[str]] = {}
    shared: dict[tuple[str, str], DType | None] = {}
    for module in listed:
        entry = section.section("quantized_layers").section(module)
        key = str(entry.keys.get("quant_algo")), str(entry.keys.get("group_size"))
        if key not in shared:
            shared[key] = _algorithm(entry, entry.keys.get("quant_algo"))
        found = shared[key]
        if found is not None:
            formats.setdefault(found, []).append(module)
    read = [(Names(modules, f"{section.source}: quantized_layers"), found) for found, modules in formats.items()]

    def of(name: str, label: str, layer: int | None) -> DType | None:
        if kept.mean(name, label, layer):
            return None
        return next((found for own, found in read if own.mean(name, label, layer)), None)

    return Rules("modelopt", of, (kept, *(own for own, _ in read)))


def _algorithm(section: Config, algorithm: object) -> DType | None:
    """The format of one of ModelOpt's algorithms; None where it leaves weights as they are."""
    if algorithm is None:
        return None
    reader = _ALGORITHMS.get(str(algorithm).upper())
    if reader is None:
        raise section.fail(
            f"quant_algo is {shown(algorithm)}. Possible: {', '.join(_ALGORITHMS)}, MIXED_PRECISION with "
            "quantized_layers."
        )
    return reader(section)


def _nvfp4(section: Config) -> DType:
    group = _group(section, "group_size", 16)
    return _scaled(_grouped("nvfp4", group), 4, (1, group, 8), (WHOLE, WHOLE, 32))


def _int4(section: Config) -> DType:
    group = _group(section, "group_size", 128)
    return _scaled(_grouped("int4 (AWQ)", group), 4, (1, group, 16))


_PER_ROW = _scaled("int8, a scale a row", 8, (1, WHOLE, 32))
_ALGORITHMS: Mapping[str, Callable[[Config], DType]] = {
    **dict.fromkeys(("NVFP4", "W4A16_NVFP4", "W4A8_NVFP4_FP8", "NVFP4_AWQ"), _nvfp4),
    **dict.fromkeys(("MXFP4", "W4A8_MXFP4_FP8"), lambda _: DTYPES["mxfp4"]),
    **dict.fromkeys(("MXFP8", "W8A8_MXFP8"), lambda _: DTYPES["mxfp8"]),
    "FP8": lambda _: _scaled("fp8", 8, (WHOLE, WHOLE, 32)),
    "FP8_PER_CHANNEL_PER_TOKEN": lambda _: _scaled("fp8, a scale a row", 8, (1, WHOLE, 32)),
    **dict.fromkeys(("FP8_PB_WO", "FP8_BLOCK_SCALES"), lambda _: DTYPES["fp8-block128"]),
    **dict.fromkeys(("W4A16_AWQ", "W4A8_AWQ"), _int4),
    **dict.fromkeys(("W8A16", "INT8_SQ", "W8A8_SQ_PER_CHANNEL"), lambda _: _PER_ROW),
}

METHODS: Mapping[str, Callable[[Config, Config], Rules | None]] = {
    "fp8": _fp8,
    "gptq": _gptq,
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "modelopt-fp4": _modelopt,
}
