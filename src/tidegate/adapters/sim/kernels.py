"""The plant's compiled loop: arrivals, proportional sharing, FIFO queues, and rows passed to the next operator.

One step of length Δt, for every task at once (Melnik et al. 2019, section 4; the same symbols):

    s_k(t) = x_k(t) + q_k(t − Δt)            what waits at input k
    r_j    = h_v · RR(s_j) / Σ_c RR(s_c)     only if the host is overloaded; otherwise a task gets what it needs
    q_k(t) = s_k(t) − IP(s(t), r(t))
    y_l(t) = OP(IP(s, r))                    arrives at child l in the next step, or later over a slow network

A row passes at most one operator per step. It enters at the start of a step and leaves at the end of one, so the
minimum latency of an operator is Δt.
"""

from __future__ import annotations

import math

from tidegate.accelerate import kernel
from tidegate.adapters.sim.latencybins import BINS, BINS_PER_OCTAVE, LEAST_LATENCY_S
from tidegate.adapters.sim.plantstate import CPU, ENTRY_S, RIPE_TICK, ROWS, Floats, Ints, State

_DONE_SHARE = 1e-9  # a queue emptied to this share is empty: the rest is rounding error


@kernel
def latency_bin(latency_s: float) -> int:
    """The logarithmic bin of a latency. The first and the last bin include everything beyond them."""
    if latency_s <= LEAST_LATENCY_S:
        return 0
    return min(BINS - 1, int(math.log2(latency_s / LEAST_LATENCY_S) * BINS_PER_OCTAVE))


@kernel
def run(state: State, arrivals: Floats, start_s: float, step_s: float, first_tick: int) -> None:
    """Advance by one step for every row of `arrivals` (steps × sources, in rows)."""
    for step in range(arrivals.shape[0]):
        tick = first_tick + step
        end_s = start_s + (step + 1) * step_s
        _collect(state, arrivals, step, step_s, tick)
        _share(state, step_s)
        _serve(state, step_s, end_s, tick)


@kernel
def _collect(state: State, arrivals: Floats, step: int, step_s: float, tick: int) -> None:
    """The waiting rows of every task (s), how many it would process (want), and the resulting demand on its host."""
    # Fields are bound once: in a compiled loop every access to a tuple's field counts references.
    alive, active, greedy, hosts, start_tick = state.alive, state.active, state.greedy, state.host, state.start_tick
    cap, cost, fixed, demand = state.cap, state.cost, state.fixed, state.demand
    links_from, source, fresh = state.links_from, state.source, state.fresh
    ripe_rows, flying_rows, wants, totals = state.ripe_rows, state.flying_rows, state.want, state.total
    recent_in, recent_load = state.recent_in, state.recent_load
    segments, head, size, ripe = state.segments, state.head, state.size, state.ripe
    resources = demand.shape[1]
    demand[:] = 0.0
    for task in range(hosts.shape[0]):
        wants[task] = 0.0
        if not alive[task]:
            continue
        total = 0.0
        came = 0.0
        for link in range(links_from[task], links_from[task + 1]):
            if source[link] >= 0:
                fresh[link] = arrivals[step, source[link]]
                came += fresh[link]
                total += fresh[link]
            elif flying_rows[link] > 0.0:
                landed = _ripen(segments, head, size, ripe, link, tick)
                came += landed
                ripe_rows[link] += landed
                flying_rows[link] = 0.0 if ripe[link] == size[link] else flying_rows[link] - landed
            total += ripe_rows[link]
        totals[task] = total
        recent_in[task] += came
        recent_load[task] += total
        host = hosts[task]
        if host < 0:
            continue
        want = 0.0
        if total > 0.0 and active[task] and tick >= start_tick[task]:
            want = total
            if cost[task, CPU] > 0.0:
                most = cap[task] * step_s / cost[task, CPU]
                if greedy[task] or want > most:
                    want = most
        wants[task] = want
        for resource in range(resources):
            demand[host, resource] += want * cost[task, resource] + fixed[task, resource] * step_s


@kernel
def _share(state: State, step_s: float) -> None:
    """The part of each demand that a host can meet: 1 if nothing is overloaded."""
    demands, capacity, factors = state.demand, state.capacity, state.factor
    recent_demand, recent_used, recent_peak = state.recent_demand, state.recent_used, state.recent_peak
    for host in range(capacity.shape[0]):
        for resource in range(capacity.shape[1]):
            demand = demands[host, resource]
            offer = capacity[host, resource] * step_s
            factor = 1.0
            if demand > offer:
                factor = offer / demand
            factors[host, resource] = factor
            recent_demand[host, resource] += demand
            recent_used[host, resource] += demand * factor
            if offer > 0.0 and demand / offer > recent_peak[host]:
                recent_peak[host] = demand / offer


@kernel
def _serve(state: State, step_s: float, end_s: float, tick: int) -> None:
    """Process the oldest rows first, and send the output to every child, or count it where it leaves."""
    alive, hosts, wants, totals = state.alive, state.host, state.want, state.total
    cost, fixed, factor = state.cost, state.fixed, state.factor
    links_from, source, freshes, application = state.links_from, state.source, state.fresh, state.application
    out_from, out_link, link_task = state.out_from, state.out_link, state.link_task
    weight, delay_ticks = state.weight, state.delay_ticks
    ripe_rows, flying_rows = state.ripe_rows, state.flying_rows
    segments, head, size, ripe = state.segments, state.head, state.size, state.ripe
    recent_in, dropped, recent_done = state.recent_in, state.dropped, state.recent_done
    latency, latency_max_s = state.latency, state.latency_max_s
    same_step_bin = latency_bin(step_s)
    for task in range(hosts.shape[0]):
        if not alive[task]:
            continue
        total = totals[task]
        if total <= 0.0:
            continue
        want = wants[task]
        done = want
        if want > 0.0:
            for resource in range(cost.shape[1]):
                needed = cost[task, resource] > 0.0 or fixed[task, resource] > 0.0
                if needed and want * factor[hosts[task], resource] < done:
                    done = want * factor[hosts[task], resource]
        if done >= total * (1.0 - _DONE_SHARE):
            done = total
        recent_done[task] += done
        is_sink = out_from[task] == out_from[task + 1]
        for link in range(links_from[task], links_from[task + 1]):
            queued = ripe_rows[link]
            if is_sink and done == total and queued == 0.0 and source[link] >= 0:  # the common case: no queue, no child
                latency[application[task], same_step_bin, 0] += freshes[link]
                latency[application[task], same_step_bin, 1] += freshes[link] * step_s
                latency_max_s[application[task]] = max(latency_max_s[application[task]], step_s)
                continue
            fresh = freshes[link] if source[link] >= 0 else 0.0
            take = queued + fresh if done == total else (queued + fresh) * (done / total)
            from_queue = min(take, queued)
            from_fresh = min(take - from_queue, fresh)
            ripe_rows[link] = queued - from_queue
            while from_queue > 0.0 or from_fresh > 0.0:
                if from_queue > 0.0:
                    rows = min(from_queue, segments[link, head[link], ROWS])
                    entry_s = segments[link, head[link], ENTRY_S]
                    _drop_oldest(segments, head, size, ripe, link, rows)
                    from_queue -= rows
                    if ripe[link] == 0:  # the segments and their running sum differ by rounding
                        rows += from_queue
                        from_queue = 0.0
                    where = latency_bin(end_s - entry_s)
                else:
                    rows = from_fresh
                    entry_s = end_s - step_s
                    where = same_step_bin
                    freshes[link] -= from_fresh
                    from_fresh = 0.0
                if is_sink:
                    latency[application[task], where, 0] += rows
                    latency[application[task], where, 1] += rows * (end_s - entry_s)
                    latency_max_s[application[task]] = max(latency_max_s[application[task]], end_s - entry_s)
                for position in range(out_from[task], out_from[task + 1]):
                    out = out_link[position]
                    sent = rows * weight[out]
                    if sent <= 0.0:
                        continue
                    if alive[link_task[out]]:
                        ripens = tick + 1 + delay_ticks[out]
                        _append(segments, head, size, ripe, out, sent, entry_s, ripens)
                        flying_rows[out] += sent
                    else:
                        recent_in[link_task[out]] += sent
                        dropped[link_task[out]] += sent
            if source[link] >= 0 and freshes[link] > 0.0:
                left = freshes[link]
                _append(segments, head, size, ripe, link, left, end_s - step_s, tick)
                ripe[link] = size[link]
                ripe_rows[link] += left


@kernel
def _drop_oldest(segments: Floats, head: Ints, size: Ints, ripe: Ints, link: int, rows: float) -> None:
    """Take rows from the head of a queue, at most its first segment."""
    held = segments[link, head[link], ROWS]
    if held - rows > held * _DONE_SHARE:
        segments[link, head[link], ROWS] = held - rows
        return
    head[link] = (head[link] + 1) % segments.shape[1]
    size[link] -= 1
    ripe[link] -= 1


@kernel
def _ripen(segments: Floats, head: Ints, size: Ints, ripe: Ints, link: int, tick: int) -> float:
    """Move rows whose transfer ends now into the queue."""
    came = 0.0
    while ripe[link] < size[link]:
        position = (head[link] + ripe[link]) % segments.shape[1]
        if segments[link, position, RIPE_TICK] > tick:
            break
        came += segments[link, position, ROWS]
        ripe[link] += 1
    return came


@kernel
def _append(
    segments: Floats, head: Ints, size: Ints, ripe: Ints, link: int, rows: float, entry_s: float, ripens: int
) -> None:
    """Add a segment at the end of a queue."""
    if size[link] == segments.shape[1]:
        _coarsen(segments, head, size, ripe, link)
    position = (head[link] + size[link]) % segments.shape[1]
    segments[link, position, ROWS] = rows
    segments[link, position, ENTRY_S] = entry_s
    segments[link, position, RIPE_TICK] = ripens
    size[link] += 1


@kernel
def _coarsen(segments: Floats, heads: Ints, sizes: Ints, ripes: Ints, link: int) -> None:
    """Merge neighbouring segments in pairs: a full ring resolves ages to a part in ring/2 of the queue's span.

    Waiting rows and rows in transfer are not mixed. Two merged segments in transfer arrive with the later one.
    """
    ring = segments.shape[1]
    head, size, ripe = heads[link], sizes[link], ripes[link]
    read, write, ripe_after = 0, 0, 0
    while read < size:
        here = (head + read) % ring
        rows, entry_s, ripens = (
            segments[link, here, ROWS],
            segments[link, here, ENTRY_S],
            segments[link, here, RIPE_TICK],
        )
        width = 1
        if read + 1 < size and (read + 1 < ripe or read >= ripe):
            there = (head + read + 1) % ring
            other = segments[link, there, ROWS]
            entry_s = (rows * entry_s + other * segments[link, there, ENTRY_S]) / (rows + other)
            ripens = max(ripens, segments[link, there, RIPE_TICK])
            rows += other
            width = 2
        target = (head + write) % ring
        segments[link, target, ROWS] = rows
        segments[link, target, ENTRY_S] = entry_s
        segments[link, target, RIPE_TICK] = ripens
        if read < ripe:
            ripe_after += 1
        read += width
        write += 1
    sizes[link] = write
    ripes[link] = ripe_after
