"""Settings of Python that a program changes are those of a new process in each run: no line is printed twice."""

import gc
import logging
import sys
import threading

log = logging.getLogger("app")
log.addHandler(logging.StreamHandler(sys.stdout))
deeper = logging.getLogger("app.deeper")


def main():
    run()


def run():
    """Run"""
    log.warning("once")
    deeper.warning("once, too")
    print(gc.isenabled(), gc.get_threshold(), sys.excepthook is sys.__excepthook__, log.isEnabledFor(logging.DEBUG))
    gc.disable()
    gc.set_threshold(9, 5, 5)
    sys.excepthook = sys.unraisablehook = threading.excepthook = print
    log.setLevel(logging.DEBUG)


if __name__ == "__main__":
    main()
