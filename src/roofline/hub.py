"""A model's config.json on the Hugging Face Hub, and what stands beside it.

Honours HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofline import config as configs
from roofline.errors import ConfigError, UnknownName, one_line, shown
from roofline.files import check_size

_DEADLINE = 30.0  # [s]


_CONFIG, _FORMATS = "config.json", "hf_quant_config.json"
_ABSENT = 404


def config(repo: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The keys of a repository's config.json, from the network or else the cache, and their source.

    Raises UnknownName where neither has it, ConfigError where it is none.
    """
    instead = "Download its config.json and name that file, or name a built-in model (roofline models)."
    try:
        path = _download(repo, _CONFIG)
    except _Refused as refusal:
        raise UnknownName(f"{refusal} {instead}") from None
    except OSError:
        raise UnknownName(f"{repo} is not built in and the Hugging Face Hub cannot be reached. {instead}") from None
    return configs.load(path, f"{repo}/{_CONFIG}"), {"config": f"https://huggingface.co/{repo}"}


def formats(repo: str) -> Mapping[str, Any] | None:
    """The keys of a repository's hf_quant_config.json; None where it has none, as most have not.

    Raises UnknownName where the Hub does not say, ConfigError where the file is no JSON.
    """
    try:
        path = _download(repo, _FORMATS)
    except _Refused as refusal:
        if refusal.status == _ABSENT:
            return None
        raise UnknownName(f"{refusal} Whether its weights are quantised is not known: download its files.") from None
    except OSError:  # offline: its config.json came from the cache, which has what was fetched then
        return None
    return configs.load(path, f"{repo}/{_FORMATS}", configs.LARGEST_LIST)


class _Refused(Exception):
    """The Hub was reached and has no such file, or cannot have it."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def _download(repo: str, file: str) -> Path:
    """A repository's file on this machine; raises OSError where neither network nor cache has it in time."""
    answers: queue.Queue[Path | BaseException] = queue.Queue()

    def fetch() -> None:
        try:
            answers.put(_fetch(repo, file))
        except BaseException as error:
            answers.put(error)

    # The client library has no deadline for a whole download: a server that stalls or never ends is left alone.
    threading.Thread(target=fetch, daemon=True).start()
    try:
        answer = answers.get(timeout=_DEADLINE)
    except queue.Empty:
        raise TimeoutError(f"no answer within {_DEADLINE} s") from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _fetch(repo: str, file: str) -> Path:
    """The download itself, by the Hub's own client, which is told to keep still."""
    for name in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")
    with _quiet():
        try:
            # From the module itself: the package's own door prints to standard output where an import fails.
            from huggingface_hub.errors import HfHubHTTPError, HFValidationError
            from huggingface_hub.file_download import (
                get_hf_file_metadata,  # pyright: ignore[reportUnknownVariableType]
                hf_hub_download,  # pyright: ignore[reportUnknownVariableType]
                hf_hub_url,
            )
        except Exception as error:  # its settings are read at import, and any of them may be wrong
            raise _Refused(f"The Hub's client does not start: {one_line(error, 120)}.") from None
        try:
            # One look without retries: an offline machine is to hear so at once.
            size = get_hf_file_metadata(hf_hub_url(repo, file), timeout=5).size
            most = configs.LARGEST_LIST if file == _FORMATS else configs.LARGEST_FILE
            check_size(f"{repo}/{file}", size or 0, most, ConfigError, configs.EXPECTED)
            return Path(hf_hub_download(repo, file))
        except HFValidationError:
            raise _Refused(f"{shown(repo)} is no built-in model and no possible Hub id.") from None
        except HfHubHTTPError as error:
            status = getattr(error.response, "status_code", 0)
            raise _Refused(_reason(f"{repo}/{file}", status), status) from None
        except ConfigError:
            raise
        except Exception:  # the library's HTTP client, and so its errors, change from version to version
            return _cached(repo, file)


def _cached(repo: str, file: str) -> Path:
    from huggingface_hub.file_download import hf_hub_download  # pyright: ignore[reportUnknownVariableType]

    try:
        return Path(hf_hub_download(repo, file, local_files_only=True))
    except OSError:
        raise
    except Exception as error:
        raise _Refused(f"The Hub's client fails for {repo}: {one_line(error, 120)}.") from None


def _reason(file: str, status: int) -> str:
    """What an HTTP status means for a reader."""
    means = {
        401: "absent, private or gated",
        403: "private or gated",
        404: "absent, or private",
        429: "too many requests",
    }
    return f"The Hub answers {status} for {file} ({means.get(status, 'it fails')})."


@contextmanager
def _quiet() -> Generator[None]:
    """No log lines and no warnings of the Hub library: what it has to say is in the error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
