"""Many ranks

What it takes to train one model on several devices: what each holds, what they send one another, and how long they
wait. Every number is derived, then counted or measured, on each rank that runs this file.

    torchrun --nproc-per-node 4 -m trace_tools trace many_ranks.py      four processes of this machine
    python many_ranks.py      one process that pretends to be the first of 64 (RANKS_PRETENDED)

A *rank* is one process of a group, with its number; the *world* is all of them.
"""

import gc
import math
import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trace_tools import ask, count, explore, link, measure, plot, table, text

DTYPE = torch.float64  # so that sums in another order differ by little
# Both have been renamed (torch 2.13).
scatter_summed = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def main() -> None:
    """What each rank holds, what ranks send one another, and how long they wait"""
    join()
    collectives_and_their_cost()
    data_parallelism()
    sharding_with_zero()
    tensor_parallelism()
    pipeline_and_its_bubble()
    summary()
    gc.collect()  # reference cycles of DDP's hold the group; where one outlives it, gloo may abort the process
    dist.destroy_process_group()


def join() -> None:
    """Joining the others

    Who is there, and what of it is real
    """
    text(
        "`torchrun` starts the same program many times. The copies differ in one number, their **rank**, which they "
        "find in their environment, and they meet through `init_process_group`. **gloo** moves their bytes through the "
        "memory of one machine or over a network, **nccl** between GPUs."
    )
    if "RANK" in os.environ:  # torchrun set it
        backend = "nccl" if torch.cuda.is_available() and torch.cuda.device_count() >= world_asked() else "gloo"
        if backend == "nccl":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend)
    else:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world_asked())
    rank, world = dist.get_rank(), dist.get_world_size()  # @inspect rank world
    assert 0 <= rank < world
    text(
        "Started by itself, this file joins a **fake** group of 64: one process is told that it is the first of them, "
        "and what it sends goes nowhere. What it holds and what it would send are real counts; what it would receive "
        "is not there. Claims about received numbers are therefore made where ranks are real, and all others always."
        if pretended()
        else f"This is one of {world} real ranks. Each has pages of its own, which show the others in columns."
    )
    ask(
        "On the rank whose number is 1, what is `dist.get_rank()` after `destroy_process_group` and a new "
        "`init_process_group`, if nothing else changed?",
        1,
        within=0,
        hint="Where does it come from?",
        why="The environment says which rank a process is, and nobody has changed that.",
    )


def world_asked() -> int:
    """How many ranks there are to be: torchrun says so, else as many as are pretended"""
    return int(os.environ.get("WORLD_SIZE") or os.environ.get("RANKS_PRETENDED", "64"))


def pretended() -> bool:
    """Whether the other ranks are only pretended, so that nothing is received"""
    return dist.get_backend() == "fake"


def where() -> str:
    """The type of device that this group's tensors have to be on"""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def traffic(f: Callable[[], object]) -> dict[str, float]:
    """What one call sends by the factors of nccl-tests: bytes on each rank's link, by operation"""
    factors = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1, "send": lambda n: 1}
    parts = {name: lambda n: (n - 1) / n for name in ("all_gather", "reduce_scatter", "all_to_all")}
    return {one.operation: one.bytes * (factors | parts)[one.operation](one.ranks) for one in count(f).collectives}


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors agree but for rounding"""
    return torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------


def collectives_and_their_cost() -> None:
    """Collectives, and what they cost

    Five operations, the bytes that each puts on a link, and the time that is left when nothing is sent
    """
    text(
        "Ranks share no memory. What one needs of another goes through a **collective**: an operation that all ranks "
        "of a group call, in the same order, each with its own tensor. If one does not come, the others wait."
    )
    rank, world = dist.get_rank(), dist.get_world_size()
    x = torch.full((4,), rank + 1.0, device=where())  # @inspect x
    dist.all_reduce(x)  # @inspect x
    assert pretended() or torch.equal(x, torch.full_like(x, world * (world + 1) / 2))
    text(
        "Before the call each rank had another tensor, after it all have the sum $1 + 2 + \\dots + n = n(n+1)/2$. An "
        "**all-reduce** can be made of two others, a **reduce-scatter**, after which each rank has its own part of the "
        "sum, and an **all-gather**, after which all have all parts:"
    )
    numbers = 1 << 14
    whole = torch.arange(float(numbers), device=where())  # (numbers,)
    part = torch.empty(numbers // world, device=where())  # (numbers / n,)
    scatter_summed(part, whole)
    gathered = torch.empty_like(whole)
    gather(gathered, part)
    assert part.shape == (numbers // world,)
    assert pretended() or torch.equal(gathered, world * whole)
    text(
        "**What it sends.** In a ring each rank passes parts of the size $S/n$ to its neighbour, $n - 1$ times for a "
        "reduce-scatter, and again for an all-gather. Of $S$ bytes an all-reduce therefore puts $2(n-1)/n \\cdot S$ on "
        "each link, the other two half of that. NVIDIA's nccl-tests call this the *bus* traffic: it comes close to "
        "$2S$, however many ranks there are."
    )
    size = whole.nbytes
    sent = traffic(lambda: dist.all_reduce(whole))
    sent |= traffic(lambda: scatter_summed(part, whole))
    sent |= traffic(lambda: gather(gathered, part))
    sent |= traffic(lambda: dist.broadcast(whole, 0))
    sent |= traffic(lambda: dist.all_to_all_single(gathered, whole))  # @inspect sent
    assert sent["all_reduce"] == 2 * (world - 1) / world * size
    assert sent["all_reduce"] == sent["reduce_scatter"] + sent["all_gather"]
    assert sent["all_to_all"] == (world - 1) / world * size
    assert sent["broadcast"] == size
    ask(
        "Of 1 GB on 8 ranks, how many GB does an all-reduce put on each rank's link?",
        2 * 7 / 8,
        unit="GB",
        slips={1.0: "That is the payload.", 7 / 8: "That is the reduce-scatter. The sums have yet to be gathered."},
    )
    cost_by_size()
    link(url="https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md", title="nccl-tests: performance")


def cost_by_size() -> None:
    """What it takes, by size"""
    text(
        "**What it takes.** A model with two numbers is enough to plan with: the time to send nothing, and the time "
        "for each byte, $t = \\alpha + \\beta \\cdot \\text{bus bytes}$. Small messages pay $\\alpha$, large ones "
        "$\\beta$: that is why gradients are sent in buckets of megabytes, and not one by one."
    )
    world = dist.get_world_size()
    sizes = [4 << power for power in range(2, 23, 4)]  # bytes: 16 B to 4 MiB
    seconds = []
    for size in sizes:  # @stepover
        held = torch.ones(size // 4, device=where())
        seconds.append(measure(lambda held=held: dist.all_reduce(held), repeats=5, min_seconds=0.02).seconds)
    on_the_bus = 2 * (world - 1) / world
    bus = [on_the_bus * size / taken for size, taken in zip(sizes, seconds, strict=True)]  # @inspect bus [B/s]
    rows = zip(sizes, seconds, bus, strict=True)
    table([[s, round(t * 1e6), round(r / 1e6, 2)] for s, t, r in rows], ["bytes", "µs", "bus bandwidth, MB/s"])
    if not pretended():
        assert bus[-1] > 10 * bus[0]  # 4 MiB against 16 bytes: the fixed cost is what small messages pay
    explore(
        all_reduce_time,
        "{ranks} ranks add up {bytes} in at least {seconds}, of which {fixed} is there for an empty message.",
        inputs={
            "bytes": (float(1 << 30), 1.0, 1e13),
            "ranks": (8, 2, 100_000),
            "latency": (20e-6, 1e-7, 1e-2),
            "bandwidth": (450e9, 1e6, 1e13),
        },
        units={"bytes": "B", "latency": "s", "bandwidth": "B/s", "seconds": "s", "fixed": "s"},
        curve=("bytes", "seconds"),
    )


def all_reduce_time(bytes: float, ranks: float, latency: float, bandwidth: float) -> dict[str, float]:
    """The time of an all-reduce in a ring: a fixed part, and the bus bytes over the bandwidth of a link"""
    return {"seconds": latency + 2 * (ranks - 1) / ranks * bytes / bandwidth, "fixed": latency}


# ---------------------------------------------------------------------------------------------------------


def small_model(width: int) -> nn.Sequential:
    """Three layers without biases, of width² numbers each; the same on every rank, as the seed is"""
    torch.manual_seed(0)
    layers = [nn.Linear(width, width, bias=False, dtype=DTYPE, device=where()) for _ in range(3)]
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def batch_of_all(width: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of all ranks, the same everywhere: (2n, D) each"""
    torch.manual_seed(1)
    inputs, targets = torch.randn(2, 2 * dist.get_world_size(), width, dtype=DTYPE).to(where())
    return inputs, targets


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared distance"""
    return ((model(inputs) - targets) ** 2).mean()


def gradients_of(model: nn.Module) -> Tensor:
    """All gradients in one row"""
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def own_part(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """This rank's rows of a batch"""
    rank, world = dist.get_rank(), dist.get_world_size()
    return inputs.chunk(world)[rank], targets.chunk(world)[rank]


def data_parallelism() -> None:
    """Data parallelism

    One model on every rank, another part of the batch on each; then the gradients are averaged
    """
    text(
        "Each rank holds the whole model and works on its own rows of the batch. The loss is a mean over rows, and so "
        "is its gradient: the mean of the ranks' gradients is the gradient of the whole batch, if all ranks have as "
        "many rows."
    )
    width = 32
    model = small_model(width)
    inputs, targets = batch_of_all(width)  # (2n, D)
    loss_of(model, inputs, targets).backward()  # the whole batch, as one rank alone would do it
    alone = gradients_of(model)
    model.zero_grad()
    mine, wanted = own_part(inputs, targets)  # (2, D)
    loss_of(model, mine, wanted).backward()
    own = gradients_of(model)[:3]  # the first three, of this rank's rows alone @inspect own
    for p in model.parameters():  # @stepover
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    averaged = gradients_of(model)[:3]  # @inspect averaged
    dist.all_reduce(own)
    assert pretended() or same(own / dist.get_world_size(), averaged)
    assert pretended() or same(gradients_of(model), alone)
    text(
        "Before the all-reduce every rank had another gradient, after it all have the same, and it is the one that a "
        "single device finds for all rows. From the same weights, with the same gradient, every rank takes the same "
        "step: no rank needs to be told the new weights."
    )
    with_ddp(model, alone, mine, wanted)


def with_ddp(model: nn.Module, alone: Tensor, mine: Tensor, wanted: Tensor) -> None:
    """The same with `DistributedDataParallel`"""
    text(
        "`DistributedDataParallel` does this as soon as the gradients of a *bucket* (25 MiB by default) are there, "
        "while the backward pass goes on with earlier layers. What it sends is the same: the gradients once, whatever "
        "the batch is. How a bucket is averaged can be replaced, for instance to send fewer bits; here by the plain "
        "way."
    )
    model.zero_grad()
    parallel = DistributedDataParallel(model)  # sends rank 0's weights to all
    parallel.register_comm_hook(None, averaged_bucket)
    loss_of(parallel, mine, wanted).backward()
    assert pretended() or same(gradients_of(model), alone)
    gradient_bytes = sum(p.nbytes for p in model.parameters())  # @inspect gradient_bytes [B]
    parallel.zero_grad()
    sent = count(lambda: loss_of(parallel, mine, wanted).backward()).collectives
    payload = {one.operation: one.bytes for one in sent}  # @inspect payload [B]
    assert payload["all_reduce"] == gradient_bytes
    ask(
        "Twice as many ranks, each with as many rows as before. By which factor does the traffic on each rank's link "
        "grow, if there were many already?",
        1,
        within=0.02,
        hint="What does $2(n-1)/n$ come to?",
        slips={2: "The sum over all links doubles. Each link's share stays."},
    )


def averaged_bucket(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """What DDP calls once all gradients of a bucket are there"""
    dist.all_reduce(bucket.buffer())
    averaged: torch.futures.Future[Tensor] = torch.futures.Future()
    averaged.set_result(bucket.buffer() / dist.get_world_size())
    return averaged


# ---------------------------------------------------------------------------------------------------------


def sharding_with_zero() -> None:
    """ZeRO, stages 1 to 3

    What every rank holds as well as all others is divided: states, then gradients, then parameters
    """
    text(
        "Data parallelism holds everything $n$ times. With Adam that is, for each parameter, the parameter, its "
        "gradient and two averages; here all of 8 bytes, 32 together. **ZeRO** divides them among the ranks: at stage "
        "1 the averages, at stage 2 also the gradients, at stage 3 also the parameters. Each rank takes the step of "
        "its own part, and the parts are gathered."
    )
    width = 128
    world = dist.get_world_size()
    inputs, targets = batch_of_all(width)
    reference = flat(small_model(width))
    rows = []
    for stage in range(4):
        held, sent, after = one_step(stage, width, inputs, targets)  # @inspect stage held sent @stepover
        numbers = reference.numel()
        expected = {0: 32, 1: 16 + 16 / world, 2: 8 + 24 / world, 3: 32 / world}[stage]
        assert held / numbers == expected  # bytes per parameter, of the tensors that this rank has
        assert sent / numbers == {0: 2, 1: 2, 2: 2, 3: 3}[stage] * (world - 1) / world * 8
        if stage == 0:
            plain = after
        assert pretended() or same(after, plain)  # the same step, however it is divided
        assert bytes_held(stage, world) == expected
        rows.append([stage, held / numbers, sent / numbers, bytes_held(stage, 64), bytes_held(stage, 1024)])
    table(rows, ["stage", f"bytes held per parameter on {world} ranks", "sent", "held on 64", "on 1024"])  # @hide
    text(
        "The bytes are summed over the tensors that a rank still has after its step, the traffic is counted. Stages 1 "
        "and 2 send what plain data parallelism sends: a reduce-scatter of gradients and an all-gather of parameters "
        "are the two halves of its all-reduce. Stage 3 gathers parameters twice, for the forward and for the backward "
        "pass, and keeps them neither time: half as much again."
    )
    names = ["parameters", "gradients", "averages"]  # @hide
    parts = [[8.0] * 3 + [8 / world], [8.0] * 2 + [8 / world] * 2, [16.0] + [16 / world] * 3]  # @hide
    bars = dict(zip(names, parts, strict=True))  # @hide
    stages = ["none", "stage 1", "stage 2", "stage 3"]  # @hide
    plot(bars, x=stages, y_label="bytes per parameter", style="stacked", title=f"On each of {world} ranks")  # @hide
    ask(
        "In this arithmetic, how many bytes per parameter does each of 64 ranks hold at stage 2?",
        8 + 24 / 64,
        hint="The parameters are whole; gradients and averages are divided.",
        slips={32 / 64: "That is stage 3.", 16 + 16 / 64: "That is stage 1."},
    )


def bytes_held(stage: int, ranks: int) -> float:
    """Bytes per parameter on each rank: parameter 8, gradient 8, two averages 16"""
    parameters = 8 / ranks if stage >= 3 else 8
    gradients = 8 / ranks if stage >= 2 else 8
    averages = 16 / ranks if stage >= 1 else 16
    return parameters + gradients + averages


def flat(model: nn.Module) -> Tensor:
    """All parameters in one row"""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def forward_and_backward(weights: Tensor, width: int, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the gradient of this rank's rows, of three layers whose weights lie in one row"""
    leaf = weights.detach().requires_grad_()
    first, second, third = (part.view(width, width) for part in leaf.chunk(3))
    made = torch.tanh(torch.tanh(inputs @ first.T) @ second.T) @ third.T
    (gradient,) = torch.autograd.grad(((made - targets) ** 2).mean(), leaf)
    return gradient


def gathered_from(part: Tensor) -> Tensor:
    """All ranks' parts behind one another"""
    whole = part.new_empty(part.numel() * dist.get_world_size())
    gather(whole, part)
    return whole


def one_step(stage: int, width: int, inputs: Tensor, targets: Tensor) -> tuple[int, float, Tensor]:
    """One step of Adam at a stage of ZeRO: the bytes held after it, the bus bytes sent in it, and the new weights"""
    rank, world = dist.get_rank(), dist.get_world_size()
    held: dict[str, Tensor] = {"parameters": flat(small_model(width))}
    if stage == 3:
        held["parameters"] = held["parameters"].chunk(world)[rank].clone()
    mine, wanted = own_part(inputs, targets)

    def exchange() -> None:
        weights = gathered_from(held["parameters"]) if stage == 3 else held["parameters"]  # for the forward pass
        if stage == 3:
            del weights  # layer by layer nothing of them stays, and the backward pass asks again
            weights = gathered_from(held["parameters"])
        gradient = forward_and_backward(weights, width, mine, wanted)
        part = gradient.new_empty(gradient.numel() // world)
        if stage == 0:
            dist.all_reduce(gradient)
        else:
            scatter_summed(part, gradient)
        if stage >= 2:
            held["gradients"] = part / world  # of the others' parts nothing is kept
        else:
            held["gradients"] = gradient / world if stage == 0 else gradient.copy_(gradient)
        step(part / world if stage else held["gradients"])

    def step(gradient: Tensor) -> None:
        averages = held["averages"] = torch.zeros(2, gradient.numel(), dtype=DTYPE, device=where())
        averages[0] += 0.1 * gradient  # β₁ = 0.9, β₂ = 0.999, both without their past at the first step
        averages[1] += 0.001 * gradient**2
        update = 0.01 * (averages[0] / 0.1) / ((averages[1] / 0.001).sqrt() + 1e-8)
        if stage in (0, 3):
            held["parameters"] -= update
        else:
            held["parameters"] = gathered_from(held["parameters"].chunk(world)[rank] - update)

    sent = sum(traffic(exchange).values())
    held_bytes = sum(tensor.untyped_storage().nbytes() for tensor in held.values())
    after = gathered_from(held["parameters"]) if stage == 3 else held["parameters"]
    return held_bytes, sent, after


# ---------------------------------------------------------------------------------------------------------


def tensor_parallelism() -> None:
    """Tensor parallelism

    One matrix product on all ranks: columns without a word, rows with one all-reduce
    """
    text(
        "A matrix that is too large for one rank is cut. **By columns**: each rank has some of the outputs, and needs "
        "all inputs. **By rows**: each has some of the inputs, its result is one summand of all outputs, and an "
        "all-reduce adds them up. In a transformer's MLP the first matrix is cut by columns and the second by rows: "
        "what the first leaves on a rank is what the second needs there, and the two cost one all-reduce together."
    )
    rank, world = dist.get_rank(), dist.get_world_size()
    tokens, width, hidden = 16, 64, 256  # T, D, H
    torch.manual_seed(2)
    x = torch.randn(tokens, width, dtype=DTYPE).to(where())  # (T, D), the same on all ranks
    up = torch.randn(width, hidden, dtype=DTYPE).to(where())  # (D, H)
    down = torch.randn(hidden, width, dtype=DTYPE).to(where())  # (H, D)
    whole = torch.relu(x @ up) @ down  # (T, D), as one rank would
    my_up, my_down = up.chunk(world, dim=1)[rank], down.chunk(world, dim=0)[rank]  # @inspect my_up.shape my_down.shape
    made = torch.relu(x @ my_up) @ my_down  # (T, D): one of n summands @inspect made
    dist.all_reduce(made)
    assert pretended() or same(made, whole)
    text("Each rank does $1/n$ of the work and holds $1/n$ of the weights. It sends the activations, not the weights:")
    work = count(lambda: torch.relu(x @ my_up) @ my_down).flops  # @inspect work [FLOP]
    relu = tokens * hidden  # FLOPs, one for each hidden unit
    assert work == (4 * tokens * width * hidden + relu) / world
    sent = traffic(lambda: dist.all_reduce(made))["all_reduce"]  # @inspect sent [B]
    assert sent == 2 * (world - 1) / world * tokens * width * 8
    text(
        "FLOPs per byte on the link: $\\frac{4TDH/n}{2\\frac{n-1}{n} TD \\cdot 8} = \\frac{H}{4(n-1)}$ at 8 bytes a "
        "number. More tokens do not help, wider layers do, more ranks hurt: tensor parallelism stays inside one "
        "machine, where links are fast."
    )
    assert math.isclose((work - relu / world) / sent, hidden / (4 * (world - 1)))
    ask(
        "The hidden width doubles, and so do the ranks minus one. What happens to the FLOPs per byte sent?",
        "they stay",
        choices=["they stay", "they double", "they halve"],
    )


# ---------------------------------------------------------------------------------------------------------


def pipeline_and_its_bubble() -> None:
    """A pipeline, and its bubble

    Each rank has some of the layers; what it waits for is the bubble
    """
    text(
        "A **pipeline** gives each rank some of the layers. Activations go from rank to rank, which is little; but "
        "while the first works, the last has nothing to do yet. The batch is cut into $m$ micro-batches. When a stage "
        "takes one slot for each, the last of $n$ ranks is done after $m + n - 1$ slots, of which it worked $m$: the "
        "**bubble** is $\\frac{n-1}{m+n-1}$ of the time."
    )
    rank, world = dist.get_rank(), dist.get_world_size()
    width, rows = 32, 4
    torch.manual_seed(3)
    layers = torch.randn(world, width, width, dtype=DTYPE) / width**0.5  # (n, D, D); rank r keeps layer r
    mine = layers[rank].to(where())
    for micro_batches in (1, 4, 16):
        inputs = torch.ones(micro_batches, rows, width, dtype=DTYPE, device=where())  # (m, R, D)
        slots, outputs = through_the_pipeline(mine, inputs)  # @inspect slots @stepover
        idle = bubble(slots, micro_batches)  # @inspect micro_batches idle
        assert pretended() or math.isclose(idle, (world - 1) / (micro_batches + world - 1))
        if rank == world - 1:
            wanted = inputs[0].cpu()
            for layer in layers:
                wanted = torch.tanh(wanted @ layer)
            assert same(outputs[0].cpu(), wanted)
    text(
        "A slot is counted, not timed: each micro-batch carries the number of the slot in which it was done, and a "
        "stage begins with it one slot later, or when it has done the one before. So the arithmetic holds on any "
        "machine; on one with fewer cores than ranks, ranks wait for cores as well, and the time says more than the "
        "bubble."
    )
    sent_bytes = rows * width * 8  # @inspect sent_bytes [B]
    handed_on = torch.ones(rows * width + 1, dtype=DTYPE, device=where())  # the activations, and the slot
    if rank < world - 1:
        assert traffic(lambda: hand_on(handed_on))["send"] == sent_bytes + 8
    if rank > 0:
        take(handed_on)
    ask(
        "With 8 ranks, how many micro-batches bring the bubble down to 10%?",
        63,
        within=0,
        hint="Solve $(n-1)/(m+n-1) = 1/10$.",
        slips={70: "That is $m + n - 1$.", 80: "That is ten for each rank: the bubble counts $n - 1$ slots."},
    )
    explore(
        pipeline_bubble,
        "{ranks} ranks and {micro_batches} micro-batches wait {idle} of the time.",
        inputs={"ranks": (8, 2, 1024), "micro_batches": (32, 1, 100_000)},
        names={"micro_batches": "micro-batches"},
        curve=("micro_batches", "idle"),
    )


def pipeline_bubble(ranks: float, micro_batches: float) -> dict[str, float]:
    """The share of a pipeline's time in which a rank waits"""
    return {"idle": (ranks - 1) / (micro_batches + ranks - 1)}


def bubble(slots: list[int], micro_batches: int) -> float:
    """The share of all slots, from the first rank's first to the last rank's last, that this rank did not work in"""
    last = torch.tensor([float(slots[-1])], device=where())
    dist.all_reduce(last, op=dist.ReduceOp.MAX)
    return 1 - micro_batches / float(last)


def hand_on(buffer: Tensor) -> None:
    """Send to the next rank"""
    dist.send(buffer, dist.get_rank() + 1)


def take(buffer: Tensor) -> Tensor:
    """Receive from the rank before"""
    dist.recv(buffer, dist.get_rank() - 1)
    return buffer


def through_the_pipeline(layer: Tensor, inputs: Tensor) -> tuple[list[int], list[Tensor]]:
    """Pass micro-batches through this rank's layer; return in which slot each was done, and what came out"""
    rank, world = dist.get_rank(), dist.get_world_size()
    slots: list[int] = []
    outputs: list[Tensor] = []
    for batch in inputs:
        arrived = 0.0
        if rank > 0:
            received = take(batch.new_empty(batch.numel() + 1))
            arrived, batch = float(received[-1]), received[:-1].view_as(batch)
        slots.append(1 + max(int(arrived), slots[-1] if slots else 0))
        outputs.append(torch.tanh(batch @ layer))
        if rank < world - 1:
            hand_on(torch.cat([outputs[-1].flatten(), batch.new_tensor([float(slots[-1])])]))
    return slots, outputs


# ---------------------------------------------------------------------------------------------------------


def summary() -> None:
    """Which one when"""
    table(
        [
            [
                "data parallel",
                "rows of the batch",
                "gradients: 2(n-1)/n of their bytes",
                "always, while the model fits",
            ],
            ["ZeRO 1, 2", "and states, gradients", "the same", "always: it costs nothing"],
            ["ZeRO 3, FSDP", "and parameters", "half as much again", "when parameters don't fit"],
            ["tensor parallel", "each matrix", "activations, twice a layer", "inside one machine"],
            ["pipeline", "layers", "activations, once a stage", "between machines; mind the bubble"],
        ],
        ["", "what is divided", "what is sent", "when"],
    )
    text(
        "They multiply: a thousand GPUs may be 8 of a tensor's parts × 4 stages × 32 shards. The product is the number "
        "of ranks; each has a group for each way, and each way its own collectives."
    )


if __name__ == "__main__":
    from trace_tools.lecture.run_plain import run

    run(main)
