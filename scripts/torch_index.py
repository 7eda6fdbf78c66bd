"""Print the pip option that finds PyTorch's CPU build, where that build will do and can be had.

On a machine without an NVIDIA driver the CPU build saves gigabytes. Pip asks every index for every package and retries
each one, so an index that cannot be reached would cost minutes: it is tried once, here. TORCH_INDEX=… is used as given.
"""

import os
import shutil
import urllib.error
import urllib.request

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def torch_index() -> str | None:
    """The index to ask besides pip's own, if any."""
    if "TORCH_INDEX" in os.environ:
        return os.environ["TORCH_INDEX"] or None
    if shutil.which("nvidia-smi"):
        return None
    try:
        urllib.request.urlopen(CPU_INDEX + "/torch/", timeout=5).close()
    except (urllib.error.URLError, TimeoutError):
        return None
    return CPU_INDEX


if __name__ == "__main__":
    index = torch_index()
    print(f"--extra-index-url {index}" if index else "")
