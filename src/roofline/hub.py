"""A model's config.json on the Hugging Face Hub: honours HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofline import config as configs
from roofline.errors import ConfigError, UnknownName, shown
from roofline.files import check_size


def config(repo: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The keys of a repository's config.json, from the network or else the cache, and their source.

    Raises UnknownName where neither has it, ConfigError where it is none.
    """
    instead = "Download its config.json and name that file, or name a built-in model (roofline models)."
    try:
        path = _download(repo)
    except _Refused as refusal:
        raise UnknownName(f"{refusal} {instead}") from None
    except OSError:
        raise UnknownName(f"{repo} is not built in and the Hugging Face Hub cannot be reached. {instead}") from None
    return configs.load(path, f"{repo}/config.json"), {"config": f"https://huggingface.co/{repo}"}


class _Refused(Exception):
    """The Hub was reached and has no such file, or cannot have it."""


def _download(repo: str) -> Path:
    """A repository's config.json on this machine; raises OSError where neither network nor cache has it."""
    try:
        # From the module itself: the package's own door prints to standard output where an import fails.
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        from huggingface_hub.file_download import (
            get_hf_file_metadata,  # pyright: ignore[reportUnknownVariableType]
            hf_hub_download,  # pyright: ignore[reportUnknownVariableType]
            hf_hub_url,
        )
    except ValueError as error:  # an HF_ENDPOINT that is no URL
        raise _Refused(f"The Hub's address is not possible: {str(error)[:80]}.") from None
    with _quiet():
        try:
            # One look without retries: an offline machine is to hear so at once.
            size = get_hf_file_metadata(hf_hub_url(repo, "config.json"), timeout=5).size
            check_size(f"{repo}/config.json", size or 0, configs.LARGEST_FILE, ConfigError, configs.EXPECTED)
            return Path(hf_hub_download(repo, "config.json"))
        except HFValidationError:
            raise _Refused(f"{shown(repo)} is no built-in model and no possible Hub id.") from None
        except HfHubHTTPError as error:
            raise _Refused(_reason(repo, getattr(error.response, "status_code", 0))) from None
        except ConfigError:
            raise
        except Exception:  # the library's HTTP client, and so its errors, change from version to version
            return Path(hf_hub_download(repo, "config.json", local_files_only=True))


def _reason(repo: str, status: int) -> str:
    """What an HTTP status means for a reader."""
    means = {
        401: "absent, private or gated",
        403: "private or gated",
        404: "absent, or private",
        429: "too many requests",
    }
    return f"The Hub answers {status} for {repo}/config.json ({means.get(status, 'it fails')})."


@contextmanager
def _quiet() -> Generator[None]:
    """The Hub library without log lines and progress bars: what it has to say is in the error."""
    from huggingface_hub.utils import (  # pyright: ignore[reportMissingTypeStubs]
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    logger = logging.getLogger("huggingface_hub")
    level, shows = logger.level, not are_progress_bars_disabled()
    logger.setLevel(logging.CRITICAL)
    disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if shows:
            enable_progress_bars()
