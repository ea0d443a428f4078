"""Python runs this file at its start if this folder is on PYTHONPATH. If EMULATED_CUDA is set, `import torch` installs
the emulated device. Processes that do not import torch are not slowed.
"""

import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


class BeforeTorch:
    """A finder for torch, used once. It loads the library before torch, and patches `torch.cuda` afterwards."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None:
            return None
        ours = importlib.util.spec_from_file_location("emulated_cuda_torch_side", HERE / "torch_side.py")
        side = importlib.util.module_from_spec(ours)
        sys.modules[ours.name] = side
        ours.loader.exec_module(side)
        if not side.wanted():
            return spec
        run = spec.loader.exec_module

        def run_and_install(module):
            run(module)
            side.install()

        side.preload(spec.submodule_search_locations[0])
        spec.loader.exec_module = run_and_install
        return spec


if os.environ.get("EMULATED_CUDA"):
    sys.meta_path.insert(0, BeforeTorch())
