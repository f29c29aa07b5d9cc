"""The JSON of every answer: the record of each, from which the schema files of the package are made."""

from __future__ import annotations

from typing import Any

import msgspec

from roofline.show.assessment_schema import AssessmentRecord
from roofline.show.catalogue_schema import DevicesRecord, ModelRecord, ModelsRecord
from roofline.show.ceilings_schema import MeasureRecord
from roofline.show.comparison_schema import ComparisonRecord
from roofline.show.diagnosis_schema import DiagnosisRecord
from roofline.show.prediction_schema import ByHandRecord, CrossoversRecord, LedgerRecord
from roofline.show.training_schema import CollectiveRecord, MfuRecord, SearchRecord, TrainRecord

SCHEMAS: dict[str, type[msgspec.Struct]] = {
    "ledger-1": LedgerRecord,
    "crossover-1": CrossoversRecord,
    "op-1": ByHandRecord,
    "model-1": ModelRecord,
    "models-1": ModelsRecord,
    "devices-1": DevicesRecord,
    "diagnosis-1": DiagnosisRecord,
    "mfu-1": MfuRecord,
    "collective-1": CollectiveRecord,
    "train-1": TrainRecord,
    "search-1": SearchRecord,
    "assessment-1": AssessmentRecord,
    "measure-1": MeasureRecord,
    "comparison-1": ComparisonRecord,
}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a record, as it stands in the package's `data/schemas`."""
    return msgspec.json.schema(SCHEMAS[name])
