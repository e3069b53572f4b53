"""The side-by-side report: a table in Markdown and one HTML page, medians with their spread."""

import html
import statistics

# Path in a report of `millstream-bench run`, what it is, whether more is better.
FIGURES = {
    "rate": ("millstream.recordsPerSecond", "messages/s", True),
    "requests": ("millstream.requestsPerSecond", "requests/s", True),
    "mb": ("millstream.mbPerSecond", "MB/s", True),
    "transactions": ("millstream.transactionsPerSecond", "transactions/s", True),
    "read-mb": ("millstream.readMbPerSecond", "MB/s read", True),
    "read-cpu": ("millstream.readMbPerCpuSecond", "MB read a second of broker CPU", True),
    "cpu-message": ("millstream.brokerCpuUsPerRecord", "us of broker CPU a message", False),
    "cpu-request": ("millstream.brokerCpuUsPerRequest", "us of broker CPU a request", False),
    # Of workloads with one request a transaction.
    "cpu-transaction": ("millstream.brokerCpuUsPerRequest", "us of broker CPU a transaction", False),
    "p50": ("millstream.aggregatedPublishLatencyFromDue50pct", "p50, ms", False),
    "p99": ("millstream.aggregatedPublishLatencyFromDue99pct", "p99, ms", False),
    "p99.9": ("millstream.aggregatedPublishLatencyFromDue999pct", "p99.9, ms", False),
    "end-p50": ("aggregatedEndToEndLatency50pct", "p50 end to end, ms", False),
    "end-p99": ("aggregatedEndToEndLatency99pct", "p99 end to end, ms", False),
    "rss": ("millstream.usage.brokerRssBytes", "MiB of memory", False),
    # Of `millstream-bench groups`.
    "commits": ("commits_per_second", "commits/s", True),
    "cpu-commit": ("broker_cpu_us_per_commit", "us of broker CPU a commit", False),
    "commit-p50": ("latency_us.p50", "p50, us", False),
    "commit-p99": ("latency_us.p99", "p99, us", False),
    "joined": ("joined_in_s", "s until all have joined", False),
}


def at(report, path):
    """The number at a path whose words are divided by points; None without."""
    for word in path.split("."):
        if not isinstance(report, dict) or word not in report:
            return None
        report = report[word]
    return report


def medians(reports, figure):
    """(median, least, most) over the rounds; None when no round has it."""
    values = [value for value in (at(report, FIGURES[figure][0]) for report in reports) if value is not None]
    if figure == "rss":
        values = [value / (1 << 20) for value in values]
    return (statistics.median(values), min(values), max(values)) if values else None


def short(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value):
    """Two places where they tell a win from a loss, fewer above."""
    return f"{value:.2f}" if value < 2 else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def rows(workloads, results, sides):
    """(workload, unit, {side: (median, least, most)}, {side: how many times better the first side is})."""
    first = next(iter(sides))
    for name, of in results.items():
        for figure in workloads[name].figures:
            _, unit, more = FIGURES[figure]
            found = {side: medians(of.get(side, []), figure) for side in sides}
            if not found[first]:
                continue
            times = {}
            for side, value in found.items():
                if side != first and value and value[0] > 0 and found[first][0] > 0:
                    ratio = found[first][0] / value[0]
                    times[side] = ratio if more else 1 / ratio
            yield name, unit, found, times


def flatness(results, sides):
    """How many times the 99th percentile grows from 10 to 1,000 partitions."""
    few, many = results.get("ten-partitions"), results.get("thousand-partitions-steady")
    if not few or not many:
        return {}
    found = {side: (medians(few.get(side, []), "p99"), medians(many.get(side, []), "p99")) for side in sides}
    return {side: many[0] / few[0] for side, (few, many) in found.items() if few and many and few[0] > 0}


def markdown(workloads, results, sides, facts):
    first = next(iter(sides))
    others = [side for side in sides if side != first]
    lines = [*facts, "", "Medians; how many times better the first is: below 1 it lost.", "",
             "| Workload | Figure | " + " | ".join(sides.values()) + " | "
             + " | ".join(f"against {sides[side]}" for side in others) + " |",
             "|" + "---|" * (2 + len(sides) + len(others))]
    before = None
    for name, unit, found, times in rows(workloads, results, sides):
        lines.append(f"| {'' if name == before else f'`{name}`'} | {unit} | "
                     + " | ".join(short(value[0]) if value else "" for value in found.values())
                     + " | " + " | ".join(f"{ratio(times[side])} x" if side in times else "" for side in others) + " |")
        before = name
    for side, growth in flatness(results, sides).items():
        lines.append(f"\n{sides[side]}: p99 grows {growth:.2f} x from 10 to 1,000 partitions.")
    return "\n".join(lines) + "\n"


STYLE = """body{font:15px/1.4 system-ui,sans-serif;margin:2em auto;max-width:1200px;color:#222}
table{border-collapse:collapse}td,th{padding:.3em .7em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,td:nth-child(2){text-align:left}.lost{color:#b00}.won{color:#070}small{color:#777}
.bar{display:inline-block;height:.7em;background:#0072b2}"""


def page(workloads, results, sides, facts):
    first = next(iter(sides))
    others = [side for side in sides if side != first]
    out = ["<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Side by side</title>", f"<style>{STYLE}</style>",
           "<h1>Side by side</h1>", *(f"<p>{html.escape(fact)}</p>" for fact in facts),
           "<p>Medians (least to most); how many times better the first is, red where it lost.</p>",
           "<table><tr><th>Workload<th>Figure", *(f"<th>{html.escape(sides[side])}" for side in sides),
           *(f"<th>against {html.escape(sides[side])}" for side in others)]
    for name, unit, found, times in rows(workloads, results, sides):
        out.append(f"<tr><td>{html.escape(name)}<td>{html.escape(unit)}")
        most = max(value[0] for value in found.values() if value) or 1
        for value in found.values():
            out.append("<td>" if not value else
                       f"<td>{short(value[0])} <small>{short(value[1])} to {short(value[2])}</small><br>"
                       f"<span class=bar style='width:{value[0] / most * 90:.0f}px'></span>")
        for side in others:
            out.append(f"<td class={'won' if times[side] >= 1 else 'lost'}>{ratio(times[side])} x" if side in times else "<td>")
    out.append("</table>")
    for side, growth in flatness(results, sides).items():
        out.append(f"<p>{html.escape(sides[side])}: p99 grows {growth:.2f} x from 10 to 1,000 partitions.</p>")
    out.append("<h2>Workloads</h2><dl>")
    for name in results:
        out.append(f"<dt>{html.escape(name)}<dd>{html.escape(workloads[name].about)}")
    return "\n".join([*out, "</dl></html>"]) + "\n"
