"""Results: what was measured, against which goal, on which machine."""

import json
import os
import platform
import statistics


class Report:
    def __init__(self):
        self.results, self.raw = [], {}

    def add(self, name, value, unit, at_least=None, at_most=None):
        """A result; its goal is a lower or an upper bound, or none."""
        goal, met = None, None
        if at_least is not None:
            goal, met = f">= {at_least:g}", value >= at_least
        if at_most is not None:
            goal, met = f"<= {at_most:g}", value <= at_most
        self.results.append({"name": name, "value": round(value, 3), "unit": unit, "goal": goal, "met": met})

    def keep(self, name, usage):
        """A raw figure: one run of a program."""
        self.raw.setdefault(name, []).append({key: round(value, 3) for key, value in vars(usage).items()})
        print(f"  {name}: {usage.seconds:.2f} s, CPU {usage.cpu_seconds:.2f} s, {usage.peak_mb:.0f} MB", flush=True)

    def median(self, name, key):
        return statistics.median(run[key] for run in self.raw[name])

    def unmet(self):
        return [result["name"] for result in self.results if result["met"] is False]

    def write(self, path, machine):
        raw = [{"name": f"raw: {name}", "value": runs, "unit": "runs", "goal": None, "met": None}
               for name, runs in self.raw.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {"name": "machine", "value": machine, "unit": "text", "goal": None, "met": None}
        path.write_text(json.dumps([*self.results, about, *raw], indent=2) + "\n")

    def print_table(self, machine):
        print(f"\n{machine}\n\n| measure | value | goal | met |\n|---|---:|---:|---|")
        for result in self.results:
            met = {True: "yes", False: "NO", None: ""}[result["met"]]
            value = f"{result['value']:,.2f}" if result["value"] < 1000 else f"{result['value']:,.0f}"
            print(f"| {result['name']} | {value} {result['unit']} | {result['goal'] or ''} | {met} |")


def machine_line(server_version=None):
    model = platform.machine()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    system = f"{platform.system()} {platform.release()}"
    # A load above zero before anything was measured says that others use the machine: their share is not ours.
    load = f"load before {os.getloadavg()[0]:.1f}"
    server = f"MySQL {server_version}; " if server_version else ""
    return f"{os.cpu_count()} x {model}, {memory_gb:.0f} GB, {system}; {server}{load}"
