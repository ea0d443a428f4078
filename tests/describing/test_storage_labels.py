"""Labels of memory and of addresses."""

import pytest

from trace_tools.describing.storage_labels import FIRST_PRUNING, StorageLabels


class Memory:
    """Memory that a test frees."""

    freed = False

    def dead(self) -> bool:
        return self.freed


def test_labels_are_numbered_in_order_until_their_memory_is_freed() -> None:
    labels, memory = StorageLabels(), Memory()
    assert [labels.add(key, dead=memory.dead) for key in (7, 3)] == ["s1", "s2"]
    assert [labels.find(key) for key in (3, 7, 8)] == ["s2", "s1", None]
    memory.freed = True
    assert labels.find(7) is None
    assert labels.add(7, dead=Memory().dead) == "s3"


def test_overlapping_memory_shares_a_label_while_alive() -> None:
    labels, first, second = StorageLabels(), Memory(), Memory()
    assert labels.add(1, dead=first.dead, span=(100, 200)) == "s1"
    assert labels.add(2, dead=second.dead, span=(150, 160)) == "s1"
    assert labels.add(3, dead=second.dead, span=(200, 210)) == "s2"
    first.freed = True
    assert labels.add(4, dead=second.dead, span=(100, 140)) == "s3"
    assert labels.add(5, dead=second.dead, span=(155, 170)) == "s1"


def test_the_table_stays_bounded_and_keeps_living_memory() -> None:
    labels, living = StorageLabels(), Memory()
    kept = [labels.add(-key, dead=living.dead) for key in range(10)]
    for key in range(1, 20 * FIRST_PRUNING):
        memory = Memory()
        labels.add(key, dead=memory.dead)
        memory.freed = True
    assert len(labels._memories) <= FIRST_PRUNING
    kept += [labels.add(-key, dead=living.dead) for key in range(10, 3 * FIRST_PRUNING)]
    assert [labels.find(-key) for key in range(3 * FIRST_PRUNING)] == kept


def test_addresses_in_this_process_are_labelled_and_other_integers_are_not() -> None:
    torch = pytest.importorskip("torch")
    labels, tensor, large = StorageLabels(), torch.zeros(2), torch.zeros(2**20)
    owner = object()
    own = [id(owner), tensor.data_ptr(), large.untyped_storage().data_ptr(), id([]), hash(owner), tensor[1:].data_ptr()]
    assert [labels.of_address(number) for number in own] == [f"address {n}" for n in range(1, 7)]
    assert labels.of_address(id(owner)) == "address 1"
    far = id(owner) + 2**37  # from all memory of the process
    counts = [3, 2**33, 80 * 2**30, 6 * 10**12, 10**14, 312 * 10**12, 2**46, 2**47, 2**50, 6 * 7 * 10**20, far]
    assert [labels.of_address(number) for number in counts] == [None] * len(counts)
